"""Copy objects that belong to jobs: the Secret of a Slurm job, its service account and rights, and the Service by which
the pods of a job find each other.

These objects are created at the target before their job, without an owner. When the jobs exist at the target, the
objects get their owner references. If the move is interrupted before that, the garbage collector of the target does not
delete the objects, and the next move can continue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from phalanx.cli.submission.moving.ends import Ends
from phalanx.cli.submission.moving.images import Replacement
from phalanx.cli.submission.moving.portable import Copier, contains, find, objects, portable
from phalanx.cli.submission.moving.surroundings import ROLE_BINDINGS, ROLES
from phalanx.client.connection import Object
from phalanx.client.kind import CONFIG_MAPS, JOBS, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES, Kind
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS

# Owners come before the objects that they own.
_KINDS = (SECRETS, CONFIG_MAPS, SERVICES, SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)
# fields of Services that the API server fills in
_OF_NODES = ("clusterIP", "clusterIPs", "ipFamilies", "healthCheckNodePort")
# `Job` is the Job of Kubernetes, not that of Volcano
_KIND_OF = {kind.name: kind for kind in (*FRAMEWORK_KINDS, JOBS, PODS, SECRETS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """An object that belongs to moving jobs. `owners`: (kind, name) of those owners of the object that move too. Owners
    are in the same namespace as the object."""

    kind: Kind
    obj: Object
    owners: tuple[tuple[str, str], ...]


async def belongings(ends: Ends, moving: Iterable[tuple[str, str, str]]) -> list[Belonging]:
    """Return the objects of the source that belong to the moving jobs, directly or through other objects. `moving`:
    kind, namespace and name of each object of the moving jobs."""
    known, found = set(moving), []
    for kind in _KINDS:
        async for obj in objects(ends.source, kind):
            meta = obj["metadata"]
            refs = [(ref["kind"], ref["name"]) for ref in meta.get("ownerReferences") or ()]
            theirs = tuple(ref for ref in refs if (ref[0], meta["namespace"], ref[1]) in known)
            if theirs:
                known.add((kind.name, meta["namespace"], meta["name"]))
                found.append(Belonging(kind=kind, obj=obj, owners=theirs))
    return found


async def copy_belongings(copier: Copier, found: Iterable[Belonging], images: Replacement) -> None:
    for one in found:
        await copier.copy(one.kind, _body(one, images), _title(one.kind), theirs_wins=True)


def _body(one: Belonging, images: Replacement) -> Object:
    """Return the object that is created at the target as the copy."""
    body = dict(one.obj)
    if one.kind is SECRETS:
        body["data"] = images.environment(body.get("data") or {})
    if one.kind is SERVICES:
        spec = one.obj["spec"]
        headless = {"clusterIP": "None"} if spec.get("clusterIP") == "None" else {}
        body["spec"] = {key: value for key, value in spec.items() if key not in _OF_NODES} | headless
    return body


async def own(ends: Ends, found: Iterable[Belonging], images: Replacement) -> None:
    """Set the owners of the copied objects at the target: the copies of their original owners. An object of the target
    with other content is not a copy and gets no owner, because the garbage collector would delete it with the job."""
    uids: dict[tuple[str, str, str], str] = {}
    for one in found:
        meta = one.obj["metadata"]
        refs = []
        for kind, name in one.owners:
            key = kind, meta["namespace"], name
            if key not in uids:
                uids[key] = await _uid(ends, key)
            if uids[key]:
                refs.append(_reference(one.obj, kind, name, uids[key]))
        there = await find(ends.target, one.kind, meta["name"], meta["namespace"])
        if there is None or not refs or not contains(there, portable(one.kind, _body(one, images))):
            continue
        uids[one.kind.name, meta["namespace"], meta["name"]] = there["metadata"]["uid"]
        has: list[Mapping[str, str]] = there["metadata"].get("ownerReferences") or []
        more = [ref for ref in refs if ref["uid"] not in {each["uid"] for each in has}]
        if more:
            patch = {"metadata": {"ownerReferences": [*has, *more]}}
            await ends.target.patch(one.kind, meta["name"], patch, meta["namespace"])


async def _uid(ends: Ends, owner: tuple[str, str, str]) -> str:
    kind, namespace, name = owner
    there = await find(ends.target, _KIND_OF[kind], name, namespace) if kind in _KIND_OF else None
    return str(there["metadata"]["uid"]) if there is not None else ""


def _reference(obj: Object, kind: str, name: str, uid: str) -> Object:
    refs = obj["metadata"]["ownerReferences"]
    return {**next(ref for ref in refs if (ref["kind"], ref["name"]) == (kind, name)), "uid": uid}


def _title(kind: Kind) -> str:
    return f"{kind.name} of a job"
