"""Connect to both clusters of a move, and check them. If a move between them is impossible, the command ends before it
writes anything."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from phalanx.cli.cluster.target import Target, connected
from phalanx.cli.submission.moving.portable import find
from phalanx.client.connection import ApiError, ApiRefusal, Connection
from phalanx.client.kind import CRDS, LEASES, NAMESPACES, SECRETS, Kind
from phalanx.client.moment import MomentError, read_moment
from phalanx.errors import PhalanxError
from phalanx.kube.install import installation
from phalanx.kube.install.definitions import DEFINITIONS, DIGEST, install
from phalanx.kube.leader import NAME, NAMESPACE
from phalanx.kube.read.records import RecordKey

OLDEST = 29  # the oldest minor version of Kubernetes in which deploy/ can be installed
_LATE_S = 60.0  # if a Lease was not renewed for this time, its holder is assumed to be dead
_ACCESS = Kind(
    group="authorization.k8s.io", plural="selfsubjectaccessreviews", name="SelfSubjectAccessReview", namespaced=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Both clusters of a move. `source_id`, `target_id`: the uids of the clusters (that is, of their namespace
    kube-system). `source_key`, `target_key`: the keys with which the scheduler of each cluster signs its records on
    objects; None if the cluster has no key, or if the user may not read it."""

    source: Connection
    target: Connection
    source_id: str
    target_id: str
    source_key: RecordKey | None
    target_key: RecordKey | None


@asynccontextmanager
async def both(source: Target | None, kubeconfig: Path, context: str | None, *, dry: bool) -> AsyncIterator[Ends]:
    """Connect to both clusters, and yield them. If the definitions of Phalanx's kinds or the key of its records are
    missing at the target, create them, unless `dry` is set. Raises PhalanxError if a check fails."""
    path = _readable(kubeconfig)
    async with connected(source) as here, _target(path, context) as there:
        ids = [await _cluster_id(end) for end in (here, there)]
        if ids[0] == ids[1]:
            raise PhalanxError(
                f"--to {kubeconfig} is the source cluster itself ({here.server}). Nothing was changed. "
                "Name the kubeconfig of the new cluster, and the old one with --kubeconfig."
            )
        await _require_version(there)
        for end in (here, there):
            await _require_administrator(end)
        await _require_same_definitions(there)
        if not dry:
            await install(there)
        keys = [await _key(here), await _key(there) if dry else await installation.obtain_record_key(there, time.time)]
        yield Ends(
            source=here, target=there, source_id=ids[0], target_id=ids[1], source_key=keys[0], target_key=keys[1]
        )


def _readable(kubeconfig: Path) -> Path:
    path = kubeconfig.expanduser()
    if not os.access(path, os.R_OK):
        raise PhalanxError(f"--to {kubeconfig}: there is no such file, or it cannot be read. Nothing was changed.")
    return path


@asynccontextmanager
async def _target(path: Path, context: str | None) -> AsyncIterator[Connection]:
    try:
        async with connected(Target(kubeconfig=path, context=context)) as found:
            yield found
    except OSError as error:
        raise PhalanxError(f"--to {path} cannot be used: {error}. Nothing was changed.") from error


async def _cluster_id(end: Connection) -> str:
    return str((await end.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


async def _require_version(there: Connection) -> None:
    told = await there.request("GET", "/version")
    name = told.get("gitVersion") or "of an unknown version"
    major, minor = (int(re.sub(r"\D.*", "", str(told.get(part) or "")) or 0) for part in ("major", "minor"))
    if (major, minor) < (1, OLDEST):
        raise PhalanxError(
            f"{there.server} is Kubernetes {name}, and Phalanx needs 1.{OLDEST} "
            "or newer. Nothing was changed. Upgrade that cluster first."
        )


async def _require_administrator(end: Connection) -> None:
    """Raise PhalanxError if the user is not an administrator of the cluster, because then the move could fail in the
    middle."""
    asked = {"spec": {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}}}
    try:
        answer = await end.create(_ACCESS, asked)
    except ApiError as error:
        raise PhalanxError(
            f"{end.server} does not answer which rights its kubeconfig has: {error}. Nothing was changed."
        ) from (error)
    if not (answer.get("status") or {}).get("allowed"):
        raise PhalanxError(
            f"the kubeconfig of {end.server} does not grant all rights in that cluster. Nothing was changed. A move "
            "needs an administrator of both clusters (the ClusterRole cluster-admin, or the group system:masters)."
        )


async def _require_same_definitions(there: Connection) -> None:
    for body in DEFINITIONS.values():
        found = await find(there, CRDS, body["metadata"]["name"])
        if (
            found is not None
            and (found["metadata"].get("annotations") or {}).get(DIGEST) != (body["metadata"]["annotations"][DIGEST])
        ):
            raise PhalanxError(
                f"{there.server} has the definition {body['metadata']['name']} of another version of Phalanx. Nothing "
                "was changed. Install the same version in both clusters (kubectl apply --kustomize deploy/overlays/…)."
            )


async def _key(end: Connection) -> RecordKey | None:
    try:
        return installation.read_key(
            (await end.get(SECRETS, installation.NAME, installation.NAMESPACE)).get("data") or {}
        )
    except ApiRefusal:
        return None


async def leader(end: Connection, now_s: float) -> str:
    """Return the identity of the leading scheduler of a cluster; "" if no scheduler leads."""
    found = await find(end, LEASES, NAME, NAMESPACE)
    spec = (found or {}).get("spec") or {}
    try:
        fresh = now_s - read_moment(spec.get("renewTime")) < _LATE_S
    except MomentError:
        return ""
    return str(spec.get("holderIdentity") or "") if fresh else ""
