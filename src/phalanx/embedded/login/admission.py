"""Give users of a shared machine accounts in the cluster, and define the admission policies that limit the fields that
users may write.

The first part gives a Unix user an account in the cluster, with the same user name, the names of the user's groups, and
a token. Tokens are lines of the API server's token file, kube-apiserver's `--token-auth-file`:
`token,user,uid,"group,group"`. The uid of a Unix user is `unix:NUMBER`. So a Unix user with the name of another user of
the cluster, such as `admin`, does not get the token of that user. Unix names cannot contain a colon, so no Unix group
can have a name such as `system:masters`.

The second part has the policies. Users may not write these fields of pods: `spec.nodeName`, `spec.hostNetwork`, and the
annotation `phalanx.dev/devices`.

- A pod with a node name is bound at its creation, without a scheduler, a queue or a quota. So only admins may create
  such a pod, and controllers may not create one from the template of a user's Job. Therefore the rule applies only to
  pods, and also to pods that the control plane creates. Binding a pod needs a separate right (`create` on
  `pods/binding`), which users do not have.
- A pod with `hostNetwork` has the address of the machine. The API server and the node connect to the address of a pod
  as root, for proxies and port-forward. So the user of such a pod could reach, through the pod, every port on loopback
  that trusts root.
- The scheduler writes the devices of a pod into an annotation, and the node trusts this annotation. A pod that is
  created with the annotation would get the GPU of another pod. After the creation of a pod, only the scheduler may
  write its own annotations on it (`LoginSettings.policies`).
"""

from __future__ import annotations

import csv
import grp
import io
import os
import pwd
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

USERS, MASTERS = "phalanx:users", "system:masters"
_NAME_CHARS = 50  # the maximum length of a user name in the name of a namespace, which has at most 63 characters


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAccount:
    """The account of a Unix user in the cluster. `uid`, `gid`: the numbers of the user and the group. `groups`: the
    names of the user's groups in the cluster."""

    uid: int
    gid: int
    name: str
    groups: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"unix:{self.uid}"

    def namespace(self, *, numbered: bool = False) -> str:
        """Return the name of the user's namespace. `numbered`: True to add the uid, because another user has the plain
        name."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.name.lower())[:_NAME_CHARS].strip("-")
        number = (str(self.uid),) if numbered or not plain else ()
        return "-".join(("user", *filter(None, (plain,)), *number))


def account_of(uid: int, gid: int) -> LoginAccount:
    """Return the account of the user with these numbers. The user may have no name on this machine. Root is in the
    group `system:masters`, because root can read the data directory of the cluster."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return LoginAccount(uid=uid, gid=gid, name=f"uid-{uid}", groups=(USERS,))
    named = []
    for number in os.getgrouplist(entry.pw_name, entry.pw_gid):
        try:
            named.append(grp.getgrgid(number).gr_name)
        except KeyError:  # skip a group without a name, because the cluster identifies groups by name
            continue
    groups = (USERS, *dict.fromkeys(named), *((MASTERS,) if uid == 0 else ()))
    return LoginAccount(uid=uid, gid=entry.pw_gid, name=entry.pw_name, groups=groups)


def token_for(path: Path, account: LoginAccount) -> str:
    """Return the token of the account in the token file. If there is none, write a new one. The groups in the token's
    line are replaced by the user's present groups.

    Raises OSError. Only one process may write the file."""
    rows = [row for row in csv.reader(path.read_text().splitlines()) if row]
    mine = next((row for row in rows if len(row) > 2 and row[2] == account.key), None)
    row = [mine[0] if mine else secrets.token_urlsafe(32), account.name, account.key, ",".join(account.groups)]
    if mine != row:
        rows = [one for one in rows if one is not mine]
        _write(path, [*rows, row])
    return row[0]


def _write(path: Path, rows: list[list[str]]) -> None:
    """Replace the file in one step; only its owner may read it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text.getvalue())
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


# --- policies ---------------------------------------------------------------------------------------------------------

_NAME = "past-queues.phalanx.dev"
DEVICES = "phalanx.dev/devices"
CONTROL_PLANE = "system:phalanx"
_CONCERNED = f'request.userInfo.username == "{CONTROL_PLANE}" || !("{MASTERS}" in request.userInfo.groups)'

POLICY: dict[str, object] = {
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
                    "spec.nodeName bypasses the queues, so only admins may set it. Leave it out, "
                    "or choose nodes by nodeSelector: {kubernetes.io/hostname: NODE}"
                ),
            },
            {
                "expression": "!has(object.spec.hostNetwork) || !object.spec.hostNetwork",
                "reason": "Forbidden",
                "message": (
                    "spec.hostNetwork is refused on a shared machine: leave it out. Pods have the machine's "
                    "network anyway, at an address of their own"
                ),
            },
            {
                "expression": f'!has(object.metadata.annotations) || !("{DEVICES}" in object.metadata.annotations)',
                "reason": "Forbidden",
                "message": (
                    f"{DEVICES} names the devices that the scheduler assigned to a pod: leave it out, and request "
                    "devices"
                ),
            },
        ],
    },
}
BINDING: dict[str, object] = {
    "metadata": {"name": _NAME},
    "spec": {"policyName": _NAME, "validationActions": ["Deny"]},
}


def alike(*fields: str) -> str:
    """Return a CEL expression that is true if the given fields have not changed. The fields may be missing."""
    return " && ".join(
        f"(has(object.{field}) ? has(oldObject.{field}) && object.{field} == oldObject.{field}"
        f" : !has(oldObject.{field}))"
        for field in fields
    )


# Users who may change the data of a ConfigMap must not change these metadata fields or `immutable`, because they could
# make the ConfigMap unusable. For example, no client could change an immutable ConfigMap again, and the garbage
# collector would delete a ConfigMap whose owner does not exist.
META = tuple(f"metadata.{field}" for field in ("labels", "annotations", "ownerReferences", "finalizers"))
DATA_ALONE: dict[str, object] = {
    "expression": alike("immutable", "binaryData", *META),
    "reason": "Forbidden",
    "message": "only its data may be changed",
}

# A policy for clusters whose API server does not assign job numbers (deploy/components/slurm). The commands of users
# increase the number in a ConfigMap, each by at most the size of the largest array. The component contains the
# ConfigMap without a number, so that applying the component again does not change the number. The first job of the
# cluster writes the first number.
_NUMBERS = "slurm-numbers.phalanx.dev"
NUMBERS: dict[str, object] = {
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
                    ' && (!has(oldObject.data) && int(object.data["next"]) <= 100000000'
                    ' || has(oldObject.data) && int(object.data["next"]) > int(oldObject.data["next"])'
                    ' && int(object.data["next"]) <= int(oldObject.data["next"]) + 100000)'
                ),
                "reason": "Forbidden",
                "message": "the job number may only be increased, by at most 100000 at a time",
            },
            DATA_ALONE,
        ],
    },
}  # fmt: skip
NUMBERS_BINDING: dict[str, object] = {
    "metadata": {"name": _NUMBERS},
    "spec": {"policyName": _NUMBERS, "validationActions": ["Deny"]},
}


# A policy for clusters with deploy/components/slurm, in which each user of Slurm's commands has a namespace. A user who
# may read the Secrets of a job and exec into its pods can act as the job's user. RBAC cannot restrict these rights to
# some of the jobs in a namespace.
SLURM_USER = "phalanx:slurm-user"
_NOTES = "(has(namespaceObject.metadata.annotations) ? namespaceObject.metadata.annotations : {})"
_NAMESPACES, _POD_USERS = "slurm-namespaces.phalanx.dev", "pod-users.phalanx.dev"
NAMESPACES: dict[str, object] = {
    "metadata": {"name": _NAMESPACES},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"], "resources": ["rolebindings", "clusterrolebindings"],
                }
            ]
        },
        "matchConditions": [
            {
                "name": "of-slurms-users",
                "expression": f'object.roleRef.kind == "ClusterRole" && object.roleRef.name == "{SLURM_USER}"',
            }
        ],
        "validations": [
            {
                # All these bindings have the same name, so a namespace has at most one such binding.
                "expression": 'request.resource.resource == "rolebindings" && object.metadata.name == "'
                f'{SLURM_USER}" && has(object.subjects) && object.subjects.size() == 1'
                ' && object.subjects[0].kind == "User"'
                f' && "phalanx.dev/user" in {_NOTES} && {_NOTES}["phalanx.dev/user"] == object.subjects[0].name',
                "reason": "Forbidden",
                "message": f"{SLURM_USER} lets its holder act as every user whose jobs are in the namespace. Give each "
                "user a namespace with the annotation phalanx.dev/user, and there one RoleBinding "
                f"{SLURM_USER} that names this user alone",
            }
        ],
    },
}  # fmt: skip
NAMESPACES_BINDING: dict[str, object] = {
    "metadata": {"name": _NAMESPACES},
    "spec": {"policyName": _NAMESPACES, "validationActions": ["Deny"]},
}


def _containers(condition: str) -> str:
    """Return a CEL expression that is true if the condition is true for each container `c` of the pod."""
    return " && ".join(
        f"(has(object.spec.{part}) ? object.spec.{part} : []).all(c, {condition})"
        for part in ("containers", "initContainers", "ephemeralContainers")
    )


# In a namespace with the uid of a user, pods run with this uid. A container that is a process of the node (the image
# `host`) must state the uid.
_IS_SAID = "has({0}.securityContext) && has({0}.securityContext.runAsUser)"
_SAID_BY_POD = _IS_SAID.format("object.spec")
POD_USERS: dict[str, object] = {
    "metadata": {"name": _POD_USERS},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["pods", "pods/ephemeralcontainers"],
                }
            ]
        },
        "matchConditions": [{"name": "of-a-user", "expression": f'"phalanx.dev/uid" in {_NOTES}'}],
        "variables": [{"name": "uid", "expression": f'int({_NOTES}["phalanx.dev/uid"])'}],
        "validations": [
            {
                "expression": f"(!({_SAID_BY_POD}) || object.spec.securityContext.runAsUser == variables.uid) && "
                + _containers(
                    f"{_IS_SAID.format('c')} ? c.securityContext.runAsUser == variables.uid"
                    f' : c.image != "host" || ({_SAID_BY_POD})'
                ),
                "reason": "Forbidden",
                "message": "pods of this namespace run as its user: runAsUser is another number than the annotation "
                "phalanx.dev/uid of the namespace, or is missing for the image host",
            }
        ],
    },
}  # fmt: skip
POD_USERS_BINDING: dict[str, object] = {
    "metadata": {"name": _POD_USERS},
    "spec": {"policyName": _POD_USERS, "validationActions": ["Deny"]},
}
