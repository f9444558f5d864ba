"""What users of a shared machine may not write though they may write pods: past the queues (`spec.nodeName`), and
past who shares out devices (`phalanx.dev/devices`).

A pod that names its node is bound from its birth: no scheduler, no queue and no quota of a queue is asked. So whoever
is no admin may not create one; nor may a controller for him, from the template of a Job or of anything else, which is
why the rule is about pods alone and holds for the control plane as well. Binding is another matter: it is a right of
its own (`create` on `pods/binding`), which users are not given.

The devices that the scheduler gave a pod stand in an annotation, which its node believes: a pod that is born with it
would have another's GPU. Later nobody but the scheduler may write it, as all that it notes (`LoginSettings.policies`).
"""

from __future__ import annotations

from typing import Any

from phalanx.embedded.login.account import MASTERS

_NAME = "past-queues.phalanx.dev"
DEVICES = "phalanx.dev/devices"
CONTROL_PLANE = "system:phalanx"
_CONCERNED = f'request.userInfo.username == "{CONTROL_PLANE}" || !("{MASTERS}" in request.userInfo.groups)'

POLICY: dict[str, Any] = {
    "metadata": {"name": _NAME},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ]
        },
        "matchConditions": [{"name": "no-admin", "expression": _CONCERNED}],
        "validations": [
            {
                "expression": '!has(object.spec.nodeName) || object.spec.nodeName == ""',
                "reason": "Forbidden",
                "message": (
                    "spec.nodeName would go past the queues, and only admins may do that. Leave it out, "
                    "or choose nodes by nodeSelector: {kubernetes.io/hostname: NODE}"
                ),
            },
            {
                "expression": f'!has(object.metadata.annotations) || !("{DEVICES}" in object.metadata.annotations)',
                "reason": "Forbidden",
                "message": f"{DEVICES} tells which devices the scheduler gave a pod: leave it out, and ask for devices",
            },
        ],
    },
}
BINDING: dict[str, Any] = {
    "metadata": {"name": _NAME},
    "spec": {"policyName": _NAME, "validationActions": ["Deny"]},
}


def alike(*fields: str) -> str:
    """Return the expression for that these fields, which may be missing, are as they were."""
    return " && ".join(
        f"(has(object.{field}) ? has(oldObject.{field}) && object.{field} == oldObject.{field}"
        f" : !has(oldObject.{field}))"
        for field in fields
    )


# What a user who may change a ConfigMap could spoil it with: immutable for ever, or an owner that does not exist, with
# which it would be deleted.
META = tuple(f"metadata.{field}" for field in ("labels", "annotations", "ownerReferences", "finalizers"))
DATA_ALONE: dict[str, Any] = {
    "expression": alike("immutable", "binaryData", *META),
    "reason": "Forbidden",
    "message": "only its data may be changed",
}

# Job numbers are taken by raising one ConfigMap, which every user may do: upwards, and by no more than an array needs.
_NUMBERS = "slurm-numbers.phalanx.dev"
NUMBERS: dict[str, Any] = {
    "metadata": {"name": _NUMBERS},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"],
                    "resourceNames": ["phalanx-slurm-number"],
                }
            ]
        },
        "matchConditions": [
            {"name": "of-slurm", "expression": 'object.metadata.namespace == "kube-system"'},
            {"name": "no-admin", "expression": f'!("{MASTERS}" in request.userInfo.groups)'},
        ],
        "validations": [
            {
                "expression": (
                    'has(object.data) && object.data.size() == 1 && "next" in object.data'
                    ' && object.data["next"].matches("^[0-9]{1,10}$")'
                    ' && int(object.data["next"]) > int(oldObject.data["next"])'
                    ' && int(object.data["next"]) <= int(oldObject.data["next"]) + 100000'
                ),
                "reason": "Forbidden",
                "message": "job numbers go upwards, by at most 100000 at a time",
            },
            DATA_ALONE,
        ],
    },
}  # fmt: skip
NUMBERS_BINDING: dict[str, Any] = {
    "metadata": {"name": _NUMBERS},
    "spec": {"policyName": _NUMBERS, "validationActions": ["Deny"]},
}
