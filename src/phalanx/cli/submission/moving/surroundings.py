"""Copy the objects that jobs need, before the jobs are moved: namespaces, priorities, queues, accounts, rights,
ConfigMaps and Secrets.

Each object is copied separately, and can be copied again without harm. If the target has an object with the same name
but other content, this object is kept, unless --replace is given. Objects that an installation of Phalanx or Kubernetes
creates are not copied. Objects that belong to one machine (nodes, volumes, tokens) are not copied either.
"""

from __future__ import annotations

import os

from phalanx.cli.submission.moving.ends import Ends
from phalanx.cli.submission.moving.portable import Copier, MoveTally, find, objects, owners, title_of
from phalanx.client.connection import Object
from phalanx.client.kind import (
    CONFIG_MAPS,
    CRON_JOBS,
    DEPLOYMENTS,
    LIMIT_RANGES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Kind,
)
from phalanx.client.policies import VALIDATING, VALIDATING_BINDINGS
from phalanx.dialects.job_kinds.appwrapper.kinds import QUOTA_SUBTREES
from phalanx.dialects.kai.kinds import QUEUES as KAI_QUEUES
from phalanx.dialects.kube_scheduler.koordinator.kinds import ELASTIC_QUOTAS
from phalanx.dialects.kueue import kinds as kueue
from phalanx.dialects.volcano.kinds import JOBS as VOLCANO_JOBS
from phalanx.dialects.volcano.kinds import QUEUES as VOLCANO_QUEUES
from phalanx.embedded.login.grants import GID, UID
from phalanx.kube.install.definitions import DEFAULT_QUEUE, FLAVORS, QUEUES, RESERVATIONS
from phalanx.kube.read.labels import whole_number
from phalanx.slurm.cluster import admission
from phalanx.slurm.cluster.site import Site, parse

_RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = Kind(group=_RBAC, plural="clusterroles", name="ClusterRole", namespaced=False)
CLUSTER_BINDINGS = Kind(group=_RBAC, plural="clusterrolebindings", name="ClusterRoleBinding", namespaced=False)
ROLES = Kind(group=_RBAC, plural="roles", name="Role")
ROLE_BINDINGS = Kind(group=_RBAC, plural="rolebindings", name="RoleBinding")

SYSTEM = "kube-system"
NUMBER, _NEXT = "phalanx-slurm-number", "next"
# prefixes of the namespaces that installations of Kubernetes, Phalanx, Kueue and Volcano create
_OF_THE_SYSTEM = ("kube-", "phalanx-", "kueue-", "volcano-")
# the prefix of roles that deploy/ installs; they are not copied, because each version of Phalanx has its own roles
_OURS = "phalanx:"
_BOOTSTRAP = "kubernetes.io/bootstrapping"
_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a type of Secrets
_CA = "kube-root-ca.crt"  # the ConfigMap that each cluster creates itself
_QUEUES: tuple[Kind, ...] = (
    *(FLAVORS, QUEUES, RESERVATIONS),
    *(kueue.TOPOLOGIES, kueue.RESOURCE_FLAVORS, kueue.PRIORITY_CLASSES, kueue.PROVISIONING_CONFIGS),
    *(kueue.ADMISSION_CHECKS, kueue.COHORTS, kueue.CLUSTER_QUEUES, kueue.LOCAL_QUEUES),
    *(VOLCANO_QUEUES, KAI_QUEUES, ELASTIC_QUOTAS, QUOTA_SUBTREES),
)
# Kinds whose objects are not moved, with the reason.
_STAYS: dict[Kind, str] = {
    CRON_JOBS: "both clusters would run it: apply its manifest to the target, and delete it here",
    DEPLOYMENTS: "it continues to run here: apply its manifest to the target, and delete it here",
    STATEFUL_SETS: "it continues to run here: apply its manifest to the target, and delete it here",
    kueue.MULTI_CLUSTERS: "its kubeconfig is in a Secret of the system: create both in the target",
    VOLCANO_JOBS: "a Volcano Job cannot be held while it is copied: delete it here, and submit it in the target",
}


def is_system(namespace: str) -> bool:
    return namespace.startswith(_OF_THE_SYSTEM)


async def copy_surroundings(ends: Ends, copier: Copier) -> None:
    """Copy all objects except jobs. If this fails with ApiUnknown, call it again to continue."""
    source = ends.source
    for kind in (NAMESPACES, PRIORITY_CLASSES):
        async for obj in objects(source, kind):
            if not _is_brought(kind, obj):
                await copier.copy(kind, obj, theirs_wins=kind is NAMESPACES)
    for kind in _QUEUES:
        await _copy_queues(ends, copier, kind)
    await _copy_site(ends, copier)
    for kind in (CLUSTER_ROLES, CLUSTER_BINDINGS, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS):
        await _copy_rights(ends, copier, kind)
    for kind in (LIMIT_RANGES, RESOURCE_QUOTAS, CONFIG_MAPS, SECRETS):
        async for obj in objects(source, kind):
            if _is_users(obj):
                await _copy_content(copier, kind, obj)
    for kind, why in _STAYS.items():
        async for obj in objects(source, kind):
            if _is_users(obj):
                _leave(copier.tally, kind, obj, why)


async def namespace_owners(ends: Ends) -> dict[str, tuple[int, int]]:
    """Return namespace -> (uid, gid) of the Unix user to whom the namespace belongs. The key "" has the ids of the
    caller, because pods of the caller's own `phalanx up` run with these ids."""
    found = {} if os.getuid() == 0 else {"": (os.getuid(), os.getgid())}
    async for obj in objects(ends.source, NAMESPACES):
        notes = obj["metadata"].get("annotations") or {}
        ids = [whole_number(notes.get(key)) for key in (UID, GID)]
        if ids[0] is not None:
            found[obj["metadata"]["name"]] = ids[0], ids[0] if ids[1] is None else ids[1]
    return found


async def missing_claims(ends: Ends, copier: Copier, *, empty: bool) -> set[str]:
    """Return the PersistentVolumeClaims (NAMESPACE/NAME) that the target does not have. `empty`: True to create the
    missing claims at the target, without their data."""
    missing: set[str] = set()
    async for obj in objects(ends.source, VOLUME_CLAIMS):
        if not _is_users(obj):
            continue
        meta = obj["metadata"]
        there = await find(ends.target, VOLUME_CLAIMS, meta["name"], meta["namespace"])
        if there is None and empty:
            spec = {key: value for key, value in obj["spec"].items() if key not in {"volumeName", "dataSourceRef"}}
            if await copier.copy(VOLUME_CLAIMS, {**obj, "spec": spec}) is not None:
                continue
        elif there is not None:
            row = copier.tally.row(VOLUME_CLAIMS.name)
            row.found, row.there = row.found + 1, row.there + 1
            continue
        else:
            why = (
                "its data is on this machine: create the claim in the target and copy the data, or add "
                "--empty-claims; then "
                "move again"
            )
            _leave(copier.tally, VOLUME_CLAIMS, obj, why)
        missing.add(title_of(obj))
    return missing


async def _copy_queues(ends: Ends, copier: Copier, kind: Kind) -> None:
    """Copy the queues (or similar objects) of one kind. If the target does not serve the kind, report them as not
    moved."""
    found = [obj async for obj in objects(ends.source, kind)]
    title = kind.name if kind.group == QUEUES.group else f"{kind.plural}.{kind.group}"
    if found and not await serves(ends, kind):
        why = f"the target has no {kind.plural}.{kind.group}: install the component of deploy/components in the target"
        for obj in found:
            _leave(copier.tally, kind, obj, why, title)
        return
    for obj in found:
        await copier.copy(kind, obj, title, theirs_wins=_is_untouched(kind, obj))


def _is_untouched(kind: Kind, obj: Object) -> bool:
    """Return True for the queue `default` if it is unchanged since Phalanx created it."""
    return kind is QUEUES and obj["metadata"]["name"] == DEFAULT_QUEUE and obj.get("spec") == {"gang": True}


async def serves(ends: Ends, kind: Kind) -> bool:
    path = f"/apis/{kind.group}/{kind.version}"
    groups = (await ends.target.request("GET", "/apis")).get("groups") or ()
    versions = {one["groupVersion"] for group in groups for one in group.get("versions") or ()}
    if path.removeprefix("/apis/") not in versions:
        return False
    served = (await ends.target.request("GET", path)).get("resources") or ()
    return any(one["name"] == kind.plural for one in served)


async def _copy_site(ends: Ends, copier: Copier) -> None:
    """Copy Slurm's accounts and associations, the policies that enforce them, and the next job number."""
    site = await find(ends.source, CONFIG_MAPS, admission.SITE, SYSTEM)
    if site is not None:
        await copier.copy(CONFIG_MAPS, site, "Slurm's accounts")
        for name in (admission.NAME, admission.OWNERS, admission.STEPS):
            for kind in (VALIDATING, VALIDATING_BINDINGS):
                if (policy := await find(ends.source, kind, name)) is not None:
                    await copier.copy(kind, policy, "Slurm's policies", theirs_wins=True)
    await _copy_number(ends, copier)


async def _copy_number(ends: Ends, copier: Copier) -> None:
    """Set the target's next Slurm job number to at least the source's next number, so that no number is used twice."""
    here = await find(ends.source, CONFIG_MAPS, NUMBER, SYSTEM)
    ours = int(((here or {}).get("data") or {}).get(_NEXT) or 0)
    if here is None or ours <= 1:
        return
    row, there = copier.tally.row("Slurm's next number"), await find(ends.target, CONFIG_MAPS, NUMBER, SYSTEM)
    row.found += 1
    if there is not None and int((there.get("data") or {}).get(_NEXT) or 0) >= ours:
        row.there += 1
        return
    row.moved += 1
    if copier.dry:
        return
    if there is None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NUMBER, "namespace": SYSTEM}}
        await ends.target.create(CONFIG_MAPS, {**body, "data": {_NEXT: str(ours)}}, SYSTEM)
        return
    version = there["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {_NEXT: str(ours)}}
    await ends.target.patch(CONFIG_MAPS, NUMBER, patch, SYSTEM)


async def _copy_rights(ends: Ends, copier: Copier, kind: Kind) -> None:
    """Copy the RBAC objects of this kind that administrators of the source created."""
    async for obj in objects(ends.source, kind):
        meta = obj["metadata"]
        name, namespace = meta["name"], meta.get("namespace", "")
        slurms = namespace == SYSTEM and name.startswith(f"{_OURS}slurm")
        if _BOOTSTRAP in (meta.get("labels") or {}) or name.startswith("system:") or name == "cluster-admin":
            continue
        if namespace and not slurms and (not _is_users(obj) or name == "default"):
            continue
        if owners(obj, ("Job", "Secret")):  # the object is moved with its job
            continue
        if kind in (CLUSTER_BINDINGS, ROLE_BINDINGS) and not await _has_role(ends, obj, copier):
            continue
        await copier.copy(kind, _without_tokens(obj), theirs_wins=name.startswith(_OURS))


async def _has_role(ends: Ends, binding: Object, copier: Copier) -> bool:
    """Return True if the target has the role of a binding, or will have it after the move. Otherwise report the binding
    as not moved."""
    role, namespace = binding["roleRef"], binding["metadata"].get("namespace", "")
    kind = CLUSTER_ROLES if role["kind"] == CLUSTER_ROLES.name else ROLES
    where = "" if kind is CLUSTER_ROLES else namespace
    ends_with_it = (ends.target, ends.source) if copier.dry else (ends.target,)
    for end in ends_with_it:
        if await find(end, kind, role["name"], where) is not None:
            return True
    why = f"the target has no {role['kind']} {role['name']}"
    _leave(copier.tally, CLUSTER_BINDINGS if not namespace else ROLE_BINDINGS, binding, why)
    return False


def _without_tokens(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key != "secrets"}


async def _copy_content(copier: Copier, kind: Kind, obj: Object) -> None:
    if kind is CONFIG_MAPS and obj["metadata"]["name"] == _CA:
        return
    if kind is SECRETS and obj.get("type") == _TOKEN:
        _leave(copier.tally, kind, obj, "it is a token of this cluster: create one in the target")
        return
    if obj["metadata"].get("ownerReferences"):  # the object is copied if its job moves
        return
    await copier.copy(kind, obj)


def _is_users(obj: Object) -> bool:
    return not is_system(str(obj["metadata"].get("namespace", "")))


def _is_brought(kind: Kind, obj: Object) -> bool:
    """Return True for an object that every cluster has, or that an installation (of Kubernetes, Phalanx, Kueue or
    Volcano) creates."""
    name = obj["metadata"]["name"]
    return name == "default" or is_system(name) if kind is NAMESPACES else name.startswith("system-")


def _leave(tally: MoveTally, kind: Kind, obj: Object, why: str, title: str = "") -> None:
    tally.row(title or kind.name).found += 1
    tally.leave(title or kind.name, title_of(obj), why)


async def target_site(ends: Ends) -> Site:
    """Return the Slurm settings of the target cluster, which may name an image with Slurm's commands."""
    found = await find(ends.target, CONFIG_MAPS, admission.SITE, SYSTEM)
    return parse(found.get("data") or {}) if found is not None else Site()
