"""What the API server itself holds users to, so that the commands of whoever submits need not be trusted.

A ValidatingAdmissionPolicy, written anew whenever the site's users change: a job that bears a Slurm number is its
submitter's, and in an account that he is in. Admins (`system:masters`) submit as anybody. A service account in the
namespace of a job is no part of the control plane, so it is held to the same.

Another, written once the site's jobs get tokens: the service account of a job (`token`) starts programs in
pods of this job alone, and of its Job changes nothing but what is told of steps and pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.slurm.cluster.api import Api, Object, Refused

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = f"{_GROUP}/validatingadmissionpolicies"
_BINDINGS = f"{_GROUP}/validatingadmissionpolicybindings"
NAME = "slurm-accounts.phalanx.dev"
STEPS = "slurm-steps.phalanx.dev"
_PREFIX = "slurm.phalanx.dev/"
_NUMBER = f"{_PREFIX}number"
_USER, _LABELS, _LABELS_BEFORE = "request.userInfo.username", "object.metadata.labels", "oldObject.metadata.labels"
_OF_HERE = f'{_USER}.startsWith("system:serviceaccount:" + object.metadata.namespace + ":")'


def policy(accounts: Mapping[str, Sequence[str]]) -> Object:
    """Return the policy's spec. `accounts`: of each user."""
    known = msgspec.json.encode({user: list(theirs) for user, theirs in sorted(accounts.items())}).decode()
    return {
        "failurePolicy": "Fail",
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
            {"name": "a-user", "expression": f'!{_USER}.startsWith("system:") || {_OF_HERE}'},
            {"name": "says-whose", "expression": f'request.operation == "CREATE" || {_LABELS} != {_LABELS_BEFORE}'},
        ],
        "variables": [{"name": "accounts", "expression": known}],  # JSON of texts is CEL as well
        "validations": [
            {
                "expression": f'"phalanx.dev/group" in {_LABELS} && {_LABELS}["phalanx.dev/group"] == {_USER}',
                "message": "a job of Slurm's is its submitter's: the label phalanx.dev/group is another user's name",
            },
            {
                "expression": f'{_USER} in variables.accounts && "phalanx.dev/queue" in {_LABELS}'
                f' && {_LABELS}["phalanx.dev/queue"] in variables.accounts[{_USER}]',
                "message": "Invalid account or account/partition combination specified",
            },
        ],
    }  # fmt: skip


def steps_policy() -> Object:
    """Return the spec of the policy for the service accounts of jobs, which are named like their jobs' Secrets."""
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
            {"name": "token-of-a-job", "expression": f'{_USER}.matches("^system:serviceaccount:[^:]+:slurm-[0-9]+$")'}
        ],
        "variables": [{"name": "own", "expression": f'"^" + {_USER}.split(":")[3] + "(-[0-9]{{7}})?"'}],
        "validations": [
            {
                "expression": 'request.operation != "CONNECT"'
                ' || request.name.matches(variables.own + "-[0-9]+-[a-z0-9]{5}$")',
                "message": "the token of a job is for its own pods",
            },
            {
                "expression": f'request.operation != "UPDATE" || (request.name.matches(variables.own + "$")'
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


def enforce(api: Api, accounts: Mapping[str, Sequence[str]]) -> None:
    """Have the API server know who is in which account; where there are no users, everybody submits anywhere. Whoever
    may change the site and no rules of admission leaves them as they are."""
    bound = {"policyName": NAME, "validationActions": ["Deny"]}
    try:
        for path, kind, spec in (
            (_POLICIES, "ValidatingAdmissionPolicy", policy(accounts)),
            (_BINDINGS, "ValidatingAdmissionPolicyBinding", bound),
        ):
            if accounts:
                _write(api, path, kind, NAME, spec)
            elif api.find(f"{path}/{NAME}") is not None:
                api.delete(f"{path}/{NAME}")
    except Refused as error:
        if error.code not in (403, 404):
            raise


_CLUSTER_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
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
            group = "rbac.authorization.k8s.io"
            api.create(_CLUSTER_BINDINGS, {
                "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": f"{role}:{user}"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
            })  # fmt: skip
