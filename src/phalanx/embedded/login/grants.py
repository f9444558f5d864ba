"""Grant rights to the users of a shared machine. Every user may read queues, nodes and priority classes, and has all
rights in a namespace of the user's own, within a quota (`quota`).

The roles are written at each start, so a newer version of Phalanx replaces older roles. Only admins may write
namespaces, and the namespace determines the Unix user of its pods. So only admins choose this user
(`phalanx.embedded.node.machine.owners`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import NAMESPACES, Kind
from phalanx.client.policies import VALIDATING, VALIDATING_BINDINGS
from phalanx.embedded.login import coordinators
from phalanx.embedded.login.admission import BINDING, NUMBERS, NUMBERS_BINDING, POLICY, USERS, LoginAccount
from phalanx.embedded.login.quota import DEFAULT, give_quota, limit_system_priorities

UID, GID = "phalanx.dev/uid", "phalanx.dev/gid"
USER = "phalanx.dev/user"  # the annotation with the namespace's user, which admission policies read
PRIORITY = "phalanx.dev/max-priority"  # the annotation with the highest priority that a pod in the namespace may have
MAX_PRIORITY = 1_000_000_000  # the highest priority that a PriorityClass may have if it is not a system class
_GROUP = "rbac.authorization.k8s.io"
_CLUSTER_ROLES = Kind(group=_GROUP, plural="clusterroles", name="ClusterRole", namespaced=False)
_CLUSTER_BINDINGS = Kind(group=_GROUP, plural="clusterrolebindings", name="ClusterRoleBinding", namespaced=False)
_BINDINGS = Kind(group=_GROUP, plural="rolebindings", name="RoleBinding")
_CONFIG_MAPS = Kind(plural="configmaps", name="ConfigMap")
_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "create", "update", "patch", "delete"]
_SEES, _OWNS = "phalanx:sees", "phalanx:owns"
_ROLES = Kind(group=_GROUP, plural="roles", name="Role")
# Users of Slurm's commands read the site's ConfigMap. `sacctmgr` adds users to the roles of operators and
# administrators.
_SLURM, _OPERATES, _ADMINISTERS = "phalanx:slurm", "phalanx:slurm-operator", "phalanx:slurm-administrator"
_SITE, _NUMBER, _USAGE = coordinators.SITE, "phalanx-slurm-number", "phalanx-usage"
_SYSTEM = "kube-system"
_NUMBERS = "visibility.phalanx.dev"
_NOT_FOUND = 404
SITE_RULES: list[dict[str, object]] = [
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [_SITE, _USAGE, _NUMBER], "verbs": ["get"]},
]
VIEW_RULE: dict[str, object] = {"nonResourceURLs": ["/slurm/v1/*"], "verbs": ["get", "post"]}
OPERATOR: list[dict[str, object]] = [
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [_SITE], "verbs": ["get", "update", "patch"]},
    {"apiGroups": ["phalanx.dev"], "resources": ["queues", "reservations"], "verbs": _WRITE},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": [_GROUP],
        "resources": ["clusterrolebindings"],
        "resourceNames": [coordinators.ROLE],
        "verbs": ["get", "patch"],
    },
]
_VOLCANO = [f"{name}.volcano.sh" for name in ("batch", "bus", "flow", "scheduling")]
_RULES: dict[str, list[dict[str, object]]] = {
    _SEES: [
        {"apiGroups": ["phalanx.dev"], "resources": ["*"], "verbs": _READ},
        {"apiGroups": ["", "metrics.k8s.io"], "resources": ["nodes"], "verbs": _READ},
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": _READ},
        {"apiGroups": ["node.k8s.io"], "resources": ["runtimeclasses"], "verbs": _READ},
        {"apiGroups": ["storage.k8s.io"], "resources": ["storageclasses"], "verbs": _READ},
        {"apiGroups": [_NUMBERS], "resources": ["queues/summary"], "verbs": ["get"]},
        VIEW_RULE,
    ],
    coordinators.ROLE: coordinators.RULES,
    _OPERATES: OPERATOR,
    _ADMINISTERS: [
        *OPERATOR,
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
        {
            "apiGroups": [_GROUP],
            "resources": ["clusterroles"],
            "resourceNames": [_OPERATES, _ADMINISTERS],
            "verbs": ["bind"],
        },
        {"apiGroups": [_GROUP], "resources": ["clusterrolebindings"], "verbs": ["get", "create", "delete"]},
    ],
    _OWNS: [
        {"apiGroups": ["kubeflow.org", *_VOLCANO], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["jobset.x-k8s.io", "trainer.kubeflow.org"], "resources": ["*"], "verbs": ["*"]},
        {
            "apiGroups": ["visibility.kueue.x-k8s.io"],
            "resources": ["localqueues/pendingworkloads"],
            "verbs": ["get"],
        },
        {"apiGroups": [_NUMBERS], "resources": ["jobs/reason", "jobs/start"], "verbs": ["get"]},
        {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": _READ},
        {"apiGroups": [""], "resources": ["pods/exec", "pods/attach", "pods/portforward"], "verbs": ["get", "create"]},
        {"apiGroups": [""], "resources": ["pods/ephemeralcontainers"], "verbs": ["get", "update", "patch"]},
        {"apiGroups": [""], "resources": ["pods/proxy", "services/proxy"], "verbs": ["*"]},
    ],
}


async def install_grants(api: Connection, policies: Iterable[tuple[Kind, Object]] = ()) -> None:
    """Write the roles and the admission policies, and grant every user the rights that all users have. `policies`:
    further admission policies, and their bindings. Raises ApiError."""
    for kind, body in policies:
        await _put(api, kind, body)
    for policy in (POLICY, NUMBERS, *coordinators.POLICIES):
        await _put(api, VALIDATING, policy)
    for bound in (BINDING, NUMBERS_BINDING, *coordinators.BINDINGS):
        await _put(api, VALIDATING_BINDINGS, bound)
    for name, rules in _RULES.items():
        await _put(api, _CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
    everybody = [{"apiGroup": _GROUP, "kind": "Group", "name": USERS}]
    binding = {"metadata": {"name": _SEES}, "roleRef": _role(_SEES), "subjects": everybody}
    await _put(api, _CLUSTER_BINDINGS, binding)
    named = {"metadata": {"name": coordinators.ROLE}, "roleRef": _role(coordinators.ROLE)}  # sacctmgr adds the subjects
    await _put(api, _CLUSTER_BINDINGS, named)
    await _put(api, _ROLES, {"metadata": {"name": _SLURM}, "rules": SITE_RULES}, _SYSTEM)
    role = {"apiGroup": _GROUP, "kind": "Role", "name": _SLURM}
    await _put(api, _BINDINGS, {"metadata": {"name": _SLURM}, "roleRef": role, "subjects": everybody}, _SYSTEM)
    await limit_system_priorities(api)
    first = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _NUMBER}, "data": {"next": "1"}}
    try:
        await api.create(_CONFIG_MAPS, first, _SYSTEM)
    except ApiRefusal as error:
        if error.reason != "AlreadyExists":
            raise


async def give_namespace(
    api: Connection, account: LoginAccount, quota: Mapping[str, str] = DEFAULT, max_priority: int = MAX_PRIORITY
) -> str:
    """Return the name of the account's namespace. Create the namespace if it is missing. `quota`, `max_priority`: the
    limits that are written if the namespace has none. Raises ApiError."""
    name = account.namespace()
    if not await _claimed(api, name, account, max_priority):
        name = account.namespace(numbered=True)
        if not await _claimed(api, name, account, max_priority):
            raise PermissionError(f"the namespaces {account.namespace()} and {name} belong to other users")
    subjects = [{"apiGroup": _GROUP, "kind": "User", "name": account.name}]
    for role in ("edit", _OWNS):
        binding = {"metadata": {"name": f"owner-{role.replace(':', '-')}"}, "roleRef": _role(role)}
        await _put(api, _BINDINGS, binding | {"subjects": subjects}, name)
    await give_quota(api, name, quota)
    return name


async def _claimed(api: Connection, name: str, account: LoginAccount, max_priority: int) -> bool:
    """Return True if the namespace belongs to the account. Create the namespace if it is missing."""
    notes = {UID: str(account.uid), GID: str(account.gid), USER: account.name, PRIORITY: str(max_priority)}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": notes}}
    try:
        found = await api.create(NAMESPACES, body)
    except ApiRefusal as error:
        if error.reason != "AlreadyExists":
            raise
        found = await api.get(NAMESPACES, name)
    said = found["metadata"].get("annotations") or {}
    if said.get(UID) != notes[UID]:
        return False
    missing = {key: text for key, text in notes.items() if key not in said or (key == USER and said[key] != text)}
    if missing:  # the namespace is from an older version of Phalanx, or the user was renamed
        await api.patch(NAMESPACES, name, {"metadata": {"annotations": missing}})
    return True


def _role(name: str) -> Object:
    return {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name}


async def _put(api: Connection, kind: Kind, body: Object, namespace: str = "") -> None:
    """Change the object, or create it if it is missing. The change is tried first, because the API server refuses every
    creation in a full namespace, even the creation of an object that exists."""
    whole = {"apiVersion": kind.api_version, "kind": kind.name, **body}
    try:
        await api.patch(kind, body["metadata"]["name"], whole, namespace)
    except ApiRefusal as error:
        if error.code != _NOT_FOUND:
            raise
        await api.create(kind, whole, namespace)
