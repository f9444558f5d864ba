"""What the API server itself holds users to, so that the commands of whoever submits need not be trusted.

A ValidatingAdmissionPolicy, written anew whenever the site's users change: a job that bears a Slurm number is its
submitter's, and in an account that he is in. Admins (`system:masters`) submit as anybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.slurm.cluster.api import Api, Object, Refused

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = f"{_GROUP}/validatingadmissionpolicies"
_BINDINGS = f"{_GROUP}/validatingadmissionpolicybindings"
NAME = "slurm-accounts.phalanx.dev"
_NUMBER = "slurm.phalanx.dev/number"
_USER, _LABELS = "request.userInfo.username", "object.metadata.labels"


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
            # The scheduler and controllers change what exists, by the rights that they have.
            {"name": "a-user", "expression": f'!{_USER}.startsWith("system:")'},
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


def enforce(api: Api, accounts: Mapping[str, Sequence[str]]) -> None:
    """Have the API server know who is in which account; where there are no users, everybody submits anywhere. Whoever
    may change the site and no rules of admission leaves them as they are."""
    bound = {"policyName": NAME, "validationActions": ["Deny"]}
    try:
        for path, kind, spec in (
            (_POLICIES, "ValidatingAdmissionPolicy", policy(accounts)),
            (_BINDINGS, "ValidatingAdmissionPolicyBinding", bound),
        ):
            there = api.find(f"{path}/{NAME}") is not None
            if not accounts and there:
                api.delete(f"{path}/{NAME}")
            elif accounts and there:
                api.patch(f"{path}/{NAME}", {"spec": spec})
            elif accounts:
                body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": NAME}}
                api.create(path, {**body, "spec": spec})
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
