"""Admission policies with which the API server enforces the rules of accounts. So users cannot avoid these rules by
calling the API server themselves.

A first ValidatingAdmissionPolicy exists as soon as the site has users. It checks the account of each job by the rule of
`sbatch -A`: a job of any kind may be in the queue of an account only if its user is a member of the account (the keys
`members.ACCOUNT` of the site's ConfigMap). The label `phalanx.dev/queue`, or the annotation of this name, or the field
of Kubeflow's frameworks names the queue. A job with a Slurm number must be in the queue of an account, and its user
must be the user who submits it.

- The user of a job is the sender of the request. If the sender is a controller or a service account, the user is the
  owner of the namespace, whom the namespace's annotation `phalanx.dev/user` names (`phalanx login` writes it). So a
  user cannot reach the queue of another account through the pod template of a Deployment.
- Admins (`system:masters`) may submit for any user. In a namespace without the annotation `phalanx.dev/user`, the
  control plane may submit for any user as well.
- An update is only checked if it changes one of the checked fields. So operators can hold and requeue the jobs of other
  users.

A second policy exists as soon as the jobs of the site get API tokens. The token of a job allows the job to start
programs in its own pods only. It allows changes of the job's own Job only, and only of the annotations about steps and
pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.slurm.cluster.api import ApiClient, Object, RequestRefused

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = f"{_GROUP}/validatingadmissionpolicies"
_BINDINGS = f"{_GROUP}/validatingadmissionpolicybindings"
PLACES = (_POLICIES, _BINDINGS)
NAME = "slurm-accounts.phalanx.dev"
# the site's ConfigMap in kube-system; the prefix of the keys with the members of accounts
SITE, MEMBERS = "phalanx-slurm", "members."
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
    """Return a CEL expression with the value of the object's label `key`, or else of its annotation `key`, or else of
    the expression `instead`."""
    labels, notes = _map(obj, "labels"), _map(obj, "annotations")
    return f'("{key}" in {labels} ? {labels}["{key}"] : "{key}" in {notes} ? {notes}["{key}"] : {instead})'


def _queue(obj: str) -> str:
    """Return a CEL expression with the queue that a job of any kind names; "" if the job names no queue."""
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
# Operators may replace the site's ConfigMap. Coordinators may only patch it. Other users may not change it.
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
    """Return a CEL expression that is true if the condition is true, or if the site has no users. In the condition, the
    variable `said` has the data of the site's ConfigMap. The expression uses a variable because the API server may copy
    a field's value in each step of a loop."""
    has_users = f'said.exists(key, key.startsWith("{MEMBERS}"))'
    return f"[has(params.data) ? params.data : {{}}].all(said, !{has_users} || {condition})"


# Only members of an account may use its queue. A user's job with a Slurm number must be in the queue of an account.
_MEMBER = f'"{MEMBERS}" + queue in said && variables.who in said["{MEMBERS}" + queue].split(",")'
_MAY_USE_QUEUE = (
    f'[variables.queue].all(queue, {_MEMBER} || !("path." + queue in said || "{MEMBERS}" + queue in said)'
    ' && (variables.number == "" || !variables.isPerson))'
)
_VALIDATIONS = {
    "Invalid account or account/partition combination specified": _of_site(_MAY_USE_QUEUE),
}


def owner_policy() -> Object:
    """Return the spec of the policy about the owner of a job. Users may submit jobs only under their own name, may set
    the label `phalanx.dev/group` only to one of their own groups, and may not set values that only operators may set.
    The policy is also enforced on a site without users."""
    judged = {
        "a Slurm job belongs to the user who submits it, but the label phalanx.dev/group names another user": (
            'variables.number == "" || variables.group == variables.who || !variables.isPerson && variables.group == ""'
        ),
        "the label phalanx.dev/group names neither its user nor a group of the user": (
            'variables.group == "" || variables.number != "" || variables.group == variables.who'
            " || variables.isPerson && variables.group in request.userInfo.groups"
        ),
        "only operators may raise a job's priority by a value of phalanx.dev/nice below 0": (
            f'!variables.nice.startsWith("-") || {_IS_OPERATOR}'
        ),
        "only operators may release a job that an administrator holds": (
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
    """Return the spec of the policy about the accounts of jobs. Its parameter is the ConfigMap of the site."""
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
    """Return the policy about the owner of a job and its binding, as objects. `phalanx up --shared` creates both at its
    first start."""
    meta = {"name": OWNERS}
    return {"metadata": meta, "spec": owner_policy()}, {"metadata": meta, "spec": _bound(OWNERS)}


def steps_policy() -> Object:
    """Return the spec of the policy for the service accounts of jobs. The service account of a job has the name of the
    job's Secret. For a heterogeneous job, its name consists of the name of the first component's Secret, a dot, and the
    number of components, which have consecutive job numbers."""
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
                "message": "the token of a job may only write the annotations about its steps and pods",
            },
        ],
    }


def hold_tokens(api: ApiClient) -> None:
    """Write the policy that limits the token of each job to the job's own pods. Raises RequestRefused; then the caller
    must not give tokens to jobs."""
    _write(api, _POLICIES, "ValidatingAdmissionPolicy", STEPS, steps_policy())
    _write(api, _BINDINGS, "ValidatingAdmissionPolicyBinding", STEPS, _bound(STEPS))


def _bound(name: str) -> Object:
    return {"policyName": name, "validationActions": ["Deny"]}


def _write(api: ApiClient, path: str, kind: str, name: str, spec: Object) -> None:
    if api.find(f"{path}/{name}") is not None:
        api.patch(f"{path}/{name}", {"spec": spec})
    else:
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        api.create(path, {**body, "spec": spec})


def enforce(api: ApiClient) -> None:
    """Write the policies about accounts and owners of jobs. A caller who may change the site but no admission policies
    leaves the policies unchanged."""
    bound = {**_bound(NAME), "paramRef": _PARAM}
    try:
        _write(api, _POLICIES, "ValidatingAdmissionPolicy", OWNERS, owner_policy())
        _write(api, _BINDINGS, "ValidatingAdmissionPolicyBinding", OWNERS, _bound(OWNERS))
        _write(api, _POLICIES, "ValidatingAdmissionPolicy", NAME, policy())
        _write(api, _BINDINGS, "ValidatingAdmissionPolicyBinding", NAME, bound)
    except RequestRefused as error:
        if error.code not in (403, 404):
            raise


_RBAC = "rbac.authorization.k8s.io"
_CLUSTER_BINDINGS = f"/apis/{_RBAC}/v1/clusterrolebindings"
_COORDINATORS = f"{_CLUSTER_BINDINGS}/phalanx:slurm-coordinator"
_LEVELS = {"Operator": "phalanx:slurm-operator", "Administrator": "phalanx:slurm-administrator"}


def give_level(api: ApiClient, user: str, level: str) -> None:
    """Bind the user to the ClusterRole of the admin level `level`, and remove the bindings to the roles of other
    levels. `phalanx up --shared` creates these roles; on a cluster, deploy/components/slurm does. Raises
    RequestRefused."""
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


def bind_coordinators(api: ApiClient, users: Iterable[str]) -> None:
    """Set the users that are bound to the role of coordinators. The role allows users to write the keys of the accounts
    that they coordinate. If the binding does not exist, the API server has no Slurm users, and nothing is written.
    Raises RequestRefused."""
    if api.find(_COORDINATORS) is not None:
        api.patch(_COORDINATORS, {"subjects": [_user(user) for user in sorted(users)]})


def _user(name: str) -> Object:
    return {"apiGroup": _RBAC, "kind": "User", "name": name}
