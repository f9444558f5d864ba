"""Move waiting jobs, so that each job can start in exactly one cluster, even if the move is interrupted at any moment.

A job passes five steps. A step begins when all jobs have finished the previous step:

1. The job is marked at the source with the annotation `phalanx.dev/moving`. The scheduler does not start a marked job.
2. A copy of the job is created at the target. It has the same mark, and the uid of the original
  (`phalanx.dev/moved-from`).
3. At the target, objects that belong to the jobs get their owner references.
4. The original is deleted, if it has not changed since step 1. If it has started in spite of the mark, its copy is
   deleted instead.
5. The mark of the copy is removed, if its original was deleted.

So before step 4 only the original can start (if a user removes its mark), and after step 4 only the copy. After an
interruption, the user repeats the move. A step has no effect on a job that has already passed the step. A job whose
original was deleted and whose copy is marked has passed step 4.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from phalanx.cli.cluster.jobs.choosing import for_each
from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.submission.copying import copy_of
from phalanx.cli.submission.moving.belongings import Belonging, belongings, copy_belongings, own
from phalanx.cli.submission.moving.ends import Ends
from phalanx.cli.submission.moving.images import Replacement
from phalanx.cli.submission.moving.past import MOVED_TO
from phalanx.cli.submission.moving.portable import Copier, MoveTally, find, objects
from phalanx.cli.submission.moving.selection import Move, MoveChoice, has_started, is_marked, parted
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.kube.read.labels import ADMITTED, AFTER, MOVED_FROM, MOVING, SUBMITTED, USER
from phalanx.kube.read.records import SubmissionRecord, submitted_s
from phalanx.kube.read.wire import epoch_s
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS

KINDS = (JOBS, PODS, *FRAMEWORK_KINDS)
STEPS = 4  # the number of steps of each job in the progress bar
# an administrator who impersonates the user of a job adds this group to keep the rights of an administrator
_MASTERS = "system:masters"
_TO = f"slurm.phalanx.dev/{MOVED_TO}"  # the ledger stores annotations with this prefix
_ENDING_S = 60.0  # the maximum wait for the end of pods, in addition to their grace period
_TRIES = 5  # the number of attempts to delete an object that other programs change at the same time
_OF_PODS = ("priority", "preemptionPolicy", "nodeName")  # fields of pods that the API server and the scheduler fill in
_TOKENS = "kube-api-access-"  # the prefix of volumes that the API server adds to pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A marked copy at the target. `origin`: the uid of the original object."""

    kind: Kind
    obj: Object
    origin: str

    @property
    def key(self) -> tuple[str, str, str]:
        meta = self.obj["metadata"]
        return self.kind.name, meta["namespace"], meta["name"]


class Transfer:
    """Moves jobs from the source to the target."""

    def __init__(self, ends: Ends, tally: MoveTally, images: Replacement) -> None:
        self._ends, self._tally, self._images = ends, tally, images

    async def run(self, choice: MoveChoice, copier: Copier) -> None:
        """Move the chosen jobs. Raises ApiUnknown if a server does not answer; then repeat the move to continue."""
        await self.take_back([job for job, _ in choice.stays if is_marked(job)])
        held = await self._step(choice.moves, self._hold)
        found = await belongings(self._ends, _objects(held))
        await copy_belongings(copier, found, self._images)
        copied = await self._step(held, self._copy)
        await own(self._ends, _of(found, copied), self._images)
        gone = [move for move in await for_each(copied, self._delete) if move is not None]
        self._tally.row("job").moved += len(gone)
        await self.release(await marked(self._ends))

    async def _step(self, moves: list[Move], step: Callable[[Move], Awaitable[Move | None]]) -> list[Move]:
        """Run a step for all jobs, and return the jobs for which it succeeded. If the step fails for a job, give up the
        moves of all jobs that are connected with it by a dependency."""
        done = [move for move in await for_each(moves, step) if move is not None]
        apart = parted(moves, done)
        for job, why in apart:
            await self._give_up(job, why)
        return [move for move in done if move.job not in [job for job, _ in apart]] if apart else done

    # --- the steps ----------------------------------------------------------------------------------------------------

    async def _hold(self, move: Move) -> Move | None:
        """Mark the objects of a job at the source. Return the move with the marked objects; None if the job has started
        or was deleted."""
        members: list[Member] = []
        for member in move.job.members:
            if _note(member.obj, MOVING) == self._ends.target_id:  # an earlier move of this job was interrupted
                members.append(member)
                continue
            notes = {MOVING: self._ends.target_id, _TO: self._ends.target.server}
            patch = {"metadata": {"uid": member.obj["metadata"]["uid"], "annotations": notes}}
            try:
                obj = await self._ends.source.patch(member.kind, member.name, patch, move.job.namespace)
            except ApiRefusal as error:
                if error.code not in {404, 409}:
                    raise
                await self._give_up(move.job, "it ended or was deleted during the move")
                return None
            members.append(replace(member, obj=obj))
        if any(has_started(member) for member in members):
            await self._give_up(move.job, "it started during the move; move again when it has ended")
            return None
        self._tally.tick(1)
        return replace(move, job=replace(move.job, members=tuple(members)))

    async def _copy(self, move: Move) -> Move | None:
        """Create copies of a job's objects at the target. Return None if the target refuses one of them."""
        for member in move.job.members:
            if await self._has_copy(member):
                continue
            body, user = self._copy_of(member, move)
            try:
                await self._create(member.kind, body, move.job.namespace, user)
            except ApiRefusal as error:
                why = f"the target refuses it: {error.message}"
                if error.reason == "AlreadyExists":
                    why = "the target has another job with this name; rename or delete one of them, and move again"
                await self._give_up(move.job, why)
                return None
        self._tally.tick(1)
        return move

    async def _has_copy(self, member: Member) -> bool:
        """Return True if the target has the copy of this object."""
        there = await find(self._ends.target, member.kind, member.name, member.obj["metadata"]["namespace"])
        return there is not None and _note(there, MOVED_FROM) == self._origin(member)

    async def _create(self, kind: Kind, body: Object, namespace: str, user: str) -> None:
        """Create a copy as the user of the job, because admission policies record the user who creates a job as its
        owner."""
        await self._ends.target.create(kind, body, namespace, acting=(user, _MASTERS) if user else ())

    async def _delete(self, move: Move) -> Move | None:
        """Delete the original objects of a job. If one of them has started, or was deleted by another user, delete the
        copies instead, and return None."""
        left = list(move.job.members)
        for _ in range(_TRIES):
            now = [await self._original(member) for member in left]
            there = [member for member in now if member is not None]
            if len(there) < len(now):
                await self._give_up(move.job, "it was cancelled during the move")
                return None
            if any(has_started(member) for member in there):
                await self._give_up(move.job, "it started during the move; move again when it has ended")
                return None
            left = [member for member in there if not await _deleted(self._ends.source, member)]
            if not left:
                self._tally.tick(1)
                return move
        self._tally.leave("job", move.job.id, "other programs change it too often; move again")
        return None

    async def _original(self, member: Member) -> Member | None:
        """Read the original again, and return it; None if it was deleted."""
        meta = member.obj["metadata"]
        now = await find(self._ends.source, member.kind, member.name, meta["namespace"])
        return replace(member, obj=now) if now is not None and now["metadata"]["uid"] == meta["uid"] else None

    async def release(self, copies: Sequence[Copy]) -> int:
        """Remove the marks of copies whose originals were deleted, so that the copies can start. Return the number of
        these copies."""
        there = {obj["metadata"]["uid"] for kind in KINDS async for obj in objects(self._ends.source, kind)}
        ready = [copy for copy in copies if copy.origin not in there]
        ready.sort(key=self._submitted_s)
        await for_each(ready, self._release)
        return len(ready)

    async def _release(self, copy: Copy) -> None:
        meta, at_s, key = copy.obj["metadata"], self._submitted_s(copy), self._ends.target_key
        said = SubmissionRecord(at_s=at_s) if key is None else key.submission(at_s, meta["uid"])
        patch = {"metadata": {"uid": meta["uid"], "annotations": {MOVING: None, SUBMITTED: said.text()}}}
        await _unless_gone(self._ends.target.patch(copy.kind, meta["name"], patch, meta["namespace"]))
        self._tally.tick(1)

    async def take_back(self, jobs: Iterable[FoundJob]) -> None:
        """Undo an unfinished move of these jobs: delete their copies, and then remove the marks of the originals."""
        for job in jobs:
            await self._unmark(job)

    # --- parts of the steps -----------------------------------------------------------------------------------------

    async def _give_up(self, job: FoundJob, why: str) -> None:
        self._tally.leave("job", job.id, why)
        await self._unmark(job)

    async def _unmark(self, job: FoundJob) -> None:
        """Delete the copies of a job, and then remove the marks of the originals."""
        for member in job.members:
            if await self._has_copy(member):
                body = {"propagationPolicy": "Background"}
                await _unless_gone(self._ends.target.delete(member.kind, member.name, job.namespace, body))
        for member in job.members:
            notes = {MOVING: None, _TO: None}
            patch = {"metadata": {"uid": member.obj["metadata"]["uid"], "annotations": notes}}
            await _unless_gone(self._ends.source.patch(member.kind, member.name, patch, job.namespace))

    def _copy_of(self, member: Member, move: Move) -> tuple[Object, str]:
        """Return the copy of an object, and the user to whom the job belongs."""
        body = copy_of(member, member.name)
        meta, user = body["metadata"], _note(member.obj, USER)
        origin, uid = self._origin(member), member.obj["metadata"]["uid"]
        said_s = submitted_s(_note(member.obj, SUBMITTED) or None, uid, _created_s(member.obj), self._ends.source_key)
        bearer = _bearer(origin, (member.kind.name, move.job.namespace, member.name))
        key = self._ends.target_key
        said = SubmissionRecord(at_s=said_s) if key is None else key.submission(said_s, bearer)
        notes = {**(meta.get("annotations") or {}), MOVING: self._ends.source_id, MOVED_FROM: origin}
        notes |= {SUBMITTED: said.text(), **({USER: user} if user else {})}
        notes.pop(_TO, None)
        meta["annotations"] = notes
        if move.after is not None:
            for words in (notes, meta.get("labels") or {}):
                if AFTER in words:
                    words[AFTER] = move.after
                    if not move.after:
                        del words[AFTER]
        if member.kind is PODS:
            _clean_pod(body["spec"])
        self._images.apply(body)
        return body, user

    def _origin(self, member: Member) -> str:
        return f"{self._ends.source_id}/{member.obj['metadata']['uid']}"

    def _submitted_s(self, copy: Copy) -> float:
        """Return the submission time of the job of a marked copy. If the signature of the recorded time is invalid,
        return the creation time of the copy."""
        bearer = _bearer(f"{self._ends.source_id}/{copy.origin}", copy.key)
        said = _note(copy.obj, SUBMITTED) or None
        return submitted_s(said, bearer, _created_s(copy.obj), self._ends.target_key)


async def requeue(ends: Ends, jobs: Iterable[FoundJob]) -> list[FoundJob]:
    """Stop running Jobs, so that they wait and can move, and wait until their pods have ended. Jobs of other kinds
    continue to run. Return the stopped Jobs."""
    stopped: list[FoundJob] = []
    for job in jobs:
        if any(member.kind is not JOBS for member in job.members):
            continue
        for member in job.members:
            notes = {MOVING: ends.target_id, _TO: ends.target.server, ADMITTED: None}
            patch = {
                "metadata": {"uid": member.obj["metadata"]["uid"], "annotations": notes},
                "spec": {"suspend": True},
            }
            await _unless_gone(ends.source.patch(JOBS, member.name, patch, job.namespace))
        stopped.append(job)
    until_s = time.monotonic() + _ENDING_S + max((_grace_s(job) for job in stopped), default=0.0)
    while stopped and time.monotonic() < until_s:
        states = [[await find(ends.source, JOBS, one.name, job.namespace) for one in job.members] for job in stopped]
        if not any(obj is not None and has_started(Member(kind=JOBS, obj=obj)) for each in states for obj in each):
            break
        await asyncio.sleep(0.2)  # poll the status of the Jobs
    return stopped


def _grace_s(job: FoundJob) -> float:
    pods = [member.obj["spec"]["template"]["spec"] for member in job.members]
    return float(max(pod.get("terminationGracePeriodSeconds") or 30 for pod in pods))


async def marked(ends: Ends) -> list[Copy]:
    """Return the marked copies at the target whose originals belong to this source."""
    found: list[Copy] = []
    for kind in KINDS:
        async for obj in objects(ends.target, kind):
            cluster, _, origin = _note(obj, MOVED_FROM).partition("/")
            if cluster == ends.source_id and _note(obj, MOVING):
                found.append(Copy(kind=kind, obj=obj, origin=origin))
    return found


def _objects(moves: Iterable[Move]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, namespace and name of each object of these jobs."""
    for move in moves:
        for member in move.job.members:
            yield member.kind.name, move.job.namespace, member.name


def _of(found: Iterable[Belonging], moves: Iterable[Move]) -> list[Belonging]:
    """Return the objects among `found` that belong to these jobs, directly or through other objects."""
    known, kept = set(_objects(moves)), []
    for one in found:
        namespace = one.obj["metadata"]["namespace"]
        theirs = tuple(ref for ref in one.owners if (ref[0], namespace, ref[1]) in known)
        if theirs:
            known.add((one.kind.name, namespace, one.obj["metadata"]["name"]))
            kept.append(replace(one, owners=theirs))
    return kept


async def _deleted(source: Connection, member: Member) -> bool:
    """Delete an object if it has not changed since it was read. Return False if it has changed."""
    meta = member.obj["metadata"]
    conditions = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    body = {"preconditions": conditions, "propagationPolicy": "Background"}
    try:
        await source.delete(member.kind, member.name, meta["namespace"], body)
    except ApiRefusal as error:
        if error.code not in {404, 409}:
            raise
        return error.code == 404
    return True


async def _unless_gone(call: Awaitable[object]) -> None:
    try:
        await call
    except ApiRefusal as error:
        if error.code not in {404, 409}:
            raise


def _bearer(origin: str, key: tuple[str, str, str]) -> str:
    """Return the text that the signature of the submission time contains instead of the copy's uid, because a copy has
    no uid before its creation."""
    return "\n".join(("moving", origin, *key))


def _clean_pod(spec: Object) -> None:
    for field in _OF_PODS:
        spec.pop(field, None)
    spec["volumes"] = [one for one in spec.get("volumes") or () if not one["name"].startswith(_TOKENS)]
    for part in ("containers", "initContainers"):
        for container in spec.get(part) or ():
            mounts = [one for one in container.get("volumeMounts") or () if not one["name"].startswith(_TOKENS)]
            container["volumeMounts"] = mounts


def _note(obj: Object, key: str) -> str:
    notes: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return notes.get(key, "")


def _created_s(obj: Object) -> float:
    return epoch_s(obj["metadata"].get("creationTimestamp"))
