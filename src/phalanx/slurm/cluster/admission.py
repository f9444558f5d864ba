"""What the API server itself holds users to, so that the commands of whoever submits need not be trusted.

A ValidatingAdmissionPolicy, written once the site has users: a job that bears a Slurm number is its submitter's, and in
an account that he is in, as the site says (`site`: the keys `members.ACCOUNT`). Admins (`system:masters`) submit as
anybody. Service accounts are no part of the control plane but in kube-system, so they are held to the same, wherever
they are: two users could give each other rights in their namespaces.

Another, written once the site's jobs get tokens: the service account of a job (`token`) starts programs in
pods of this job alone, and of its Job changes nothing but what is told of steps and pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.slurm.cluster.api import Api, Object, Refused

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = f"{_GROUP}/validatingadmissionpolicies"
_BINDINGS = f"{_GROUP}/validatingadmissionpolicybindings"
NAME = "slurm-accounts.phalanx.dev"
SITE, MEMBERS = "phalanx-slurm", "members."  # a ConfigMap in kube-system; its keys with the users of each account
STEPS = "slurm-steps.phalanx.dev"
_PREFIX = "slurm.phalanx.dev/"
_NUMBER = f"{_PREFIX}number"
_USER, _LABELS, _LABELS_BEFORE = "request.userInfo.username", "object.metadata.labels", "oldObject.metadata.labels"
_ACCOUNTS, _SYSTEM = "system:serviceaccount:", "system:serviceaccount:kube-system:"
_JOB = "slurm-[1-9][0-9]{0,9}(-[0-9]{7})?"  # the names of Jobs: of an array's task with its index
_ACCOUNT = "slurm-[1-9][0-9]{0,9}([.][0-9]{1,3})?"
_PARAM = {"name": SITE, "namespace": "kube-system", "parameterNotFoundAction": "Allow"}


def policy() -> Object:
    """Return the spec of the policy about the accounts of jobs. Its parameter is the site."""
    key = f'"{MEMBERS}" + {_LABELS}["phalanx.dev/queue"]'
    return {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                 "resources": ["jobs"]}
            ]
        },
        "matchConditions": [
            {"name": "of-slurm", "expression": f'has({_LABELS}) && "{_NUMBER}" in {_LABELS}'},
            {"name": "no-admin", "expression": '!("system:masters" in request.userInfo.groups)'},
            # The scheduler and controllers change what exists, by the rights that they have, as operators do.
            {
                "name": "a-user",
                "expression": f'!{_USER}.startsWith("system:")'
                f' || {_USER}.startsWith("{_ACCOUNTS}") && !{_USER}.startsWith("{_SYSTEM}")',
            },
            {"name": "says-whose", "expression": f'request.operation == "CREATE" || {_LABELS} != {_LABELS_BEFORE}'},
        ],
        "validations": [
            {
                "expression": f'"phalanx.dev/group" in {_LABELS} && {_LABELS}["phalanx.dev/group"] == {_USER}',
                "message": "a job of Slurm's is its submitter's: the label phalanx.dev/group is another user's name",
            },
            {
                # `said` by a name of its own: what is read from a field may be copied at each step of a loop.
                "expression": f'[has(params.data) ? params.data : {{}}].all(said, '
                f'!said.exists(key, key.startsWith("{MEMBERS}"))'
                f' || "phalanx.dev/queue" in {_LABELS} && {key} in said && {_USER} in said[{key}].split(","))',
                "message": "Invalid account or account/partition combination specified",
            },
        ],
    }  # fmt: skip


def steps_policy() -> Object:
    """Return the spec of the policy for the service accounts of jobs, which are named like their jobs' Secrets: that of
    a heterogeneous job like the first one's, with the number of components behind a dot, whose numbers follow it."""
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
    """Have the API server hold the tokens of jobs to their own pods. Raises Refused: then jobs must have none."""
    bound = {"policyName": STEPS, "validationActions": ["Deny"]}
    _write(api, _POLICIES, "ValidatingAdmissionPolicy", STEPS, steps_policy())
    _write(api, _BINDINGS, "ValidatingAdmissionPolicyBinding", STEPS, bound)


def _write(api: Api, path: str, kind: str, name: str, spec: Object) -> None:
    if api.find(f"{path}/{name}") is not None:
        api.patch(f"{path}/{name}", {"spec": spec})
    else:
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        api.create(path, {**body, "spec": spec})


def enforce(api: Api) -> None:
    """Have the API server hold jobs to the accounts of their users. Whoever may change the site and no rules of
    admission leaves them as they are."""
    bound = {"policyName": NAME, "paramRef": _PARAM, "validationActions": ["Deny"]}
    try:
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
    """Give a user the role of his admin level, and no other level's. The roles come with `phalanx up --shared`, and on
    a cluster with deploy/components/slurm. Raises Refused."""
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
    """Give these users, and nobody else, the role of coordinators, with which each writes what the site says is his.
    Where there is no such role, the API server has no users of Slurm's. Raises Refused."""
    if api.find(_COORDINATORS) is not None:
        api.patch(_COORDINATORS, {"subjects": [_user(user) for user in sorted(users)]})


def _user(name: str) -> Object:
    return {"apiGroup": _RBAC, "kind": "User", "name": name}
