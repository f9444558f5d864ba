"""Admission policies by which the API server enforces the rules of accounts, so that it need not trust users' commands.

A ValidatingAdmissionPolicy, written once the site has users, judges the account of each job by the rule of `sbatch -A`.
A job of any kind may be in an account's queue only if its user is a member of that account (`site`: the keys
`members.ACCOUNT`). The queue is named by the label `phalanx.dev/queue`, by the annotation of pods, and by the field of
Kubeflow's frameworks. A job with a Slurm number must be in an account, and belong to its submitter.

- The user is the sender of the request. Controllers and service accounts act for the user of the namespace. The
  namespace's annotation `phalanx.dev/user` names this user (`phalanx login` writes it). So the template of a Deployment
  gives no access to another queue.
- Admins (`system:masters`) may submit for any user. So may the control plane in a namespace without that annotation.
- Only changes of these fields are checked, so operators can hold and requeue the jobs of other users.

A second policy is written once the site's jobs get tokens. The service account of a job (`token`) may start programs in
pods of this job only, and may change only the annotations about steps and pods on its Job.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.slurm.cluster.api import Api, Object, Refused

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = f"{_GROUP}/validatingadmissionpolicies"
_BINDINGS = f"{_GROUP}/validatingadmissionpolicybindings"
PLACES = (_POLICIES, _BINDINGS)
NAME = "slurm-accounts.phalanx.dev"
SITE, MEMBERS = "phalanx-slurm", "members."  # a ConfigMap in kube-system; its keys with the users of each account
STEPS, OWNERS = "slurm-steps.phalanx.dev", "slurm-owners.phalanx.dev"
_PREFIX = "slurm.phalanx.dev/"
_NUMBER = f"{_PREFIX}number"
_USER = "request.userInfo.username"
_ACCOUNTS, _SYSTEM = "system:serviceaccount:", "system:serviceaccount:kube-system:"
_JOB = "slurm-[1-9][0-9]{0,9}(-[0-9]{7})?"  # names of Jobs; the name of an array's task ends with its index
_ACCOUNT = "slurm-[1-9][0-9]{0,9}([.][0-9]{1,3})?"
_PARAM = {"name": SITE, "namespace": "kube-system", "parameterNotFoundAction": "Allow"}


# API groups whose kinds are jobs of a framework (tests/slurm/test_queues_of_accounts.py checks that the list has all
# such groups that Phalanx reads).
FRAMEWORKS = (
    "kubeflow.org", "trainer.kubeflow.org", "jobset.x-k8s.io", "ray.io", "sparkoperator.k8s.io",
    "workload.codeflare.dev", "mcad.ibm.com", "batch.volcano.sh",
)  # fmt: skip
JUDGED = [("batch", "v1", "jobs"), ("", "v1", "pods"), *((group, "*", "*") for group in FRAMEWORKS)]
_QUEUE, _GROUP_WORD, _CONTROL_PLANE = "phalanx.dev/queue", "phalanx.dev/group", "system:phalanx"
_FIELD = "spec.runPolicy.schedulingPolicy.queue"
_OWNER = "phalanx.dev/user"  # annotation of a namespace


def _map(obj: str, part: str) -> str:
    return f"(has({obj}.metadata.{part}) ? {obj}.metadata.{part} : {{}})"


def _said(obj: str, key: str, instead: str = '""') -> str:
    """Return a CEL expression: the object's label `key`, else its annotation `key`, else the expression `instead`."""
    labels, notes = _map(obj, "labels"), _map(obj, "annotations")
    return f'("{key}" in {labels} ? {labels}["{key}"] : "{key}" in {notes} ? {notes}["{key}"] : {instead})'


def _queue(obj: str) -> str:
    """Return a CEL expression: the queue that a job of any kind names; "" if the job names none."""
    parts = _FIELD.split(".")
    there = " && ".join(f"has({obj}.{'.'.join(parts[: at + 1])})" for at in range(len(parts)))
    return _said(obj, _QUEUE, f'({there} ? {obj}.{_FIELD} : "")')


def _group(obj: str) -> str:
    return _said(obj, _GROUP_WORD)


def _number(obj: str) -> str:
    return f'("{_NUMBER}" in {_map(obj, "labels")} ? {_map(obj, "labels")}["{_NUMBER}"] : "")'


def _nice(obj: str) -> str:
    return _said(obj, "phalanx.dev/nice")


def _hold(obj: str) -> str:
    return _said(obj, "phalanx.dev/hold")


_WORDS = (_queue, _group, _number, _nice, _hold)
_BY_ADMINISTRATOR = "JobHeldAdmin"
# Operators may replace the site's ConfigMap; coordinators may patch it; other users may do neither.
_IS_OPERATOR = (
    f'authorizer.group("").resource("configmaps").namespace("kube-system").name("{SITE}").check("update").allowed()'
)
_SAYS = " || ".join(f'{word("object")} != ""' for word in _WORDS)
_CHANGES = " || ".join(f"{word('object')} != {word('oldObject')}" for word in _WORDS)
_NAMED = "namespaceObject.metadata.annotations"
_VARIABLES = {
    "queue": _queue("object"),
    "group": _group("object"),
    "number": _number("object"),
    "nice": _nice("object"),
    "hold": _hold("object"),
    "heldBefore": f'request.operation == "CREATE" ? "" : {_hold("oldObject")}',
    "owner": f'has({_NAMED}) && "{_OWNER}" in {_NAMED} ? {_NAMED}["{_OWNER}"] : ""',
    "isPerson": f'!{_USER}.startsWith("system:")',
    "who": f'variables.isPerson || variables.owner == "" && {_USER}.startsWith("{_ACCOUNTS}")'
    f' && !{_USER}.startsWith("{_SYSTEM}") ? {_USER} : variables.owner',
}


def _of_site(condition: str) -> str:
    """Return a CEL expression that is true if the condition holds, or if the site has no users. The site's data gets a
    variable (`said`), because a value that is read from a field may be copied in each step of a loop."""
    has_users = f'said.exists(key, key.startsWith("{MEMBERS}"))'
    return f"[has(params.data) ? params.data : {{}}].all(said, !{has_users} || {condition})"


# A queue that belongs to an account is for the members of that account. A user's job with a Slurm number needs a queue
# of an account.
_MEMBER = f'"{MEMBERS}" + queue in said && variables.who in said["{MEMBERS}" + queue].split(",")'
_MAY_USE_QUEUE = (
    f'[variables.queue].all(queue, {_MEMBER} || !("path." + queue in said || "{MEMBERS}" + queue in said)'
    ' && (variables.number == "" || !variables.isPerson))'
)
_VALIDATIONS = {
    "Invalid account or account/partition combination specified": _of_site(_MAY_USE_QUEUE),
}


def owner_policy() -> Object:
    """Return the spec of the policy on the owner of a job. Users submit only as themselves, name only groups of their
    own, and set no field that is reserved for operators. The policy also holds on a site without users."""
    judged = {
        "a job of Slurm's is its submitter's: the label phalanx.dev/group is another user's name": (
            'variables.number == "" || variables.group == variables.who || !variables.isPerson && variables.group == ""'
        ),
        "the label phalanx.dev/group names neither its user nor a group of the user": (
            'variables.group == "" || variables.number != "" || variables.group == variables.who'
            " || variables.isPerson && variables.group in request.userInfo.groups"
        ),
        "phalanx.dev/nice below 0 raises a job's priority, which only operators do": (
            f'!variables.nice.startsWith("-") || {_IS_OPERATOR}'
        ),
        "the hold of an administrator is not its user's to end": (
            f'variables.heldBefore != "{_BY_ADMINISTRATOR}" || variables.hold == "{_BY_ADMINISTRATOR}"'
            f" || variables.group != variables.who || {_IS_OPERATOR}"
        ),
    }
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_rule(*one) for one in JUDGED]},
        "matchConditions": _CONDITIONS,
        "variables": _variables(),
        "validations": [
            {"expression": f'variables.who == "" || {text}', "message": message} for message, text in judged.items()
        ],
    }


def _rule(group: str, version: str, plural: str) -> Object:
    return {"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE", "UPDATE"], "resources": [plural]}


def _variables() -> list[Object]:
    return [{"name": name, "expression": text} for name, text in _VARIABLES.items()]


_CONDITIONS = [
    {
        "name": "no-admin",
        "expression": f'{_USER} == "{_CONTROL_PLANE}" || !("system:masters" in request.userInfo.groups)',
    },
    {"name": "says-whose", "expression": _SAYS},
    {"name": "says-it-now", "expression": f'request.operation == "CREATE" || {_CHANGES}'},
]


def policy() -> Object:
    """Return the spec of the policy about the accounts of jobs. The policy's parameter is the ConfigMap of the site."""
    return {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [_rule(*one) for one in JUDGED]},
        "matchConditions": _CONDITIONS,
        "variables": _variables(),
        "validations": [
            {"expression": f'variables.who == "" || {text}', "message": message}
            for message, text in _VALIDATIONS.items()
        ],
    }


def owner_objects() -> tuple[Object, Object]:
    """Return the policy on the owner of a job, and its binding, as objects. A shared machine has both from its first
    start."""
    meta = {"name": OWNERS}
    return {"metadata": meta, "spec": owner_policy()}, {"metadata": meta, "spec": _bound(OWNERS)}


def steps_policy() -> Object:
    """Return the spec of the policy for the service accounts of jobs. A service account has the name of its job's
    Secret. The account of a heterogeneous job has the name of the first component's Secret, a dot, and the number of
    components. The job numbers of the components are consecutive."""
    told = " || ".join(f'name.startsWith("{_PREFIX}{word}.")' for word in ("step", "pod"))
    notes, before = "object.metadata.annotations", "oldObject.metadata.annotations"
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/*"]},
                {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["jobs"]},
            ]
        },
        "matchConditions": [
            {"name": "token-of-a-job", "expression": f'{_USER}.matches("^{_ACCOUNTS}[^:]+:{_ACCOUNT}$")'}
        ],
        "variables": [
            {"name": "numbers", "expression": f'{_USER}.split(":")[3].substring(6).split(".").map(one, int(one))'},
            {
                "name": "own",
                "expression": f'request.name.matches("^{_JOB}")'
                ' && int(request.name.split("-")[1]) >= variables.numbers[0]'
                ' && int(request.name.split("-")[1]) < variables.numbers[0]'
                " + (variables.numbers.size() > 1 ? variables.numbers[1] : 1)",
            },
        ],
        "validations": [
            {
                "expression": 'request.operation != "CONNECT"'
                f' || variables.own && request.name.matches("^{_JOB}-[0-9]+-[a-z0-9]{{5}}$")',
                "message": "the token of a job is for its own pods",
            },
            {
                "expression": f'request.operation != "UPDATE" || (variables.own && request.name.matches("^{_JOB}$")'
                " && object.spec == oldObject.spec && object.metadata.labels == oldObject.metadata.labels"
                f" && has({notes}) && {notes}.all(name, {told}"
                f" || (name in {before} && {notes}[name] == {before}[name]))"
                f" && {before}.all(name, {told} || name in {notes}))",
                "message": "the token of a job tells of its steps and pods, and changes nothing else",
            },
        ],
    }


def hold_tokens(api: Api) -> None:
    """Write the policy that limits the token of each job to the job's own pods. Raises Refused; jobs must not get
    tokens then."""
    _write(api, _POLICIES, "ValidatingAdmissionPolicy", STEPS, steps_policy())
    _write(api, _BINDINGS, "ValidatingAdmissionPolicyBinding", STEPS, _bound(STEPS))


def _bound(name: str) -> Object:
    return {"policyName": name, "validationActions": ["Deny"]}


def _write(api: Api, path: str, kind: str, name: str, spec: Object) -> None:
    if api.find(f"{path}/{name}") is not None:
        api.patch(f"{path}/{name}", {"spec": spec})
    else:
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        api.create(path, {**body, "spec": spec})


def enforce(api: Api) -> None:
    """Write the policies with which the API server keeps jobs in the accounts of their users. If the caller may change
    the site but no admission policies, the policies stay unchanged."""
    bound = {**_bound(NAME), "paramRef": _PARAM}
    try:
        _write(api, _POLICIES, "ValidatingAdmissionPolicy", OWNERS, owner_policy())
        _write(api, _BINDINGS, "ValidatingAdmissionPolicyBinding", OWNERS, _bound(OWNERS))
        _write(api, _POLICIES, "ValidatingAdmissionPolicy", NAME, policy())
        _write(api, _BINDINGS, "ValidatingAdmissionPolicyBinding", NAME, bound)
    except Refused as error:
        if error.code not in (403, 404):
            raise


_RBAC = "rbac.authorization.k8s.io"
_CLUSTER_BINDINGS = f"/apis/{_RBAC}/v1/clusterrolebindings"
_COORDINATORS = f"{_CLUSTER_BINDINGS}/phalanx:slurm-coordinator"
_LEVELS = {"Operator": "phalanx:slurm-operator", "Administrator": "phalanx:slurm-administrator"}


def give_level(api: Api, user: str, level: str) -> None:
    """Bind the user to the role of the admin level, and to the role of no other level. The roles come with `phalanx up
    --shared`, and on a cluster with deploy/components/slurm. Raises Refused."""
    for name, role in _LEVELS.items():
        path = f"{_CLUSTER_BINDINGS}/{role}:{user}"
        there = api.find(path) is not None
        if there and name != level:
            api.delete(path)
        elif not there and name == level:
            api.create(_CLUSTER_BINDINGS, {
                "apiVersion": f"{_RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": f"{role}:{user}"},
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
                "subjects": [_user(user)],
            })  # fmt: skip


def bind_coordinators(api: Api, users: Iterable[str]) -> None:
    """Bind the role of coordinators to exactly these users. The role lets each of them write the keys of their own
    accounts. If the role does not exist, the API server has no Slurm users, and nothing is written. Raises Refused."""
    if api.find(_COORDINATORS) is not None:
        api.patch(_COORDINATORS, {"subjects": [_user(user) for user in sorted(users)]})


def _user(name: str) -> Object:
    return {"apiGroup": _RBAC, "kind": "User", "name": name}
