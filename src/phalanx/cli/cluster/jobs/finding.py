"""Find the objects of a job by the name that a user types.

The argument JOB of a command has one of these forms:

    train            an object of the current namespace: a Job, an array, a gang, a pod, a training job, a Volcano Job
    job/train        the object of this kind: job, pod, vcjob, pytorchjob, rayjob and so on
    team-a/train     the object in this namespace
    sweep/7          a task of an array; without such an array, the pods of job `sweep` with this index or role
    12, 12_7         a job number of Slurm, and a task of an array of Slurm

If the objects of a job were deleted, the job is read from the ledger.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.dialects.volcano.kinds import JOBS as VOLCANO_JOBS
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import ARRAY, COMPLETION_INDEX, JOB, JOB_NAME, ROLE, option
from phalanx.kube.read.workload.adapter import FRAMEWORK_KINDS

if TYPE_CHECKING:  # the database is imported only if the job is not found in the cluster
    from phalanx.ledger.entry import JobEntry
    from phalanx.ledger.store import Ledger

_SLURM = "slurm.phalanx.dev/"
_SLURM_ID = re.compile(r"(\d{1,10})(?:_(\d{1,7}))?")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_OPERATORS: tuple[Kind, ...] = FRAMEWORK_KINDS
ARRAY_OF_JOBS, _GANG = "array", "gang"  # the kinds of jobs that have several objects
# kind of an object (`kind_text`) -> the label by which its pods are found
_POD_LABELS: Mapping[str, str] = {
    "Job": JOB_NAME,
    "Job.batch.volcano.sh": "volcano.sh/job-name",
    "JobSet": "jobset.sigs.k8s.io/jobset-name",
    "TrainJob": "jobset.sigs.k8s.io/jobset-name",
    "SparkApplication": "sparkoperator.k8s.io/app-name",
    "AppWrapper": "workload.codeflare.dev/appwrapper",
    "RayCluster": "ray.io/cluster",
    "RayJob": "ray.io/cluster",
    "RayService": "ray.io/cluster",
}
_TRAINING_LABEL = "training.kubeflow.org/job-name"
# Labels of pods whose value is the index or the role of the pod in its job.
_PART_LABELS = (
    *(COMPLETION_INDEX, ROLE, "volcano.sh/task-spec", "volcano.sh/task-index"),
    *("training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"),
    *("jobset.sigs.k8s.io/replicatedjob-name", "ray.io/node-type", "ray.io/group", "spark-role"),
    JOB_NAME,
)
_SHOWN = 8
_PAST = 500  # the number of last jobs in the ledger that are searched for similar names


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An object of a job."""

    kind: Kind
    obj: Object

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob:
    """A job that a user named.

    `kind`: the kind of the object that the user created, in small letters, or `array` or `gang` for a job of several
    objects. `members`: the objects; empty if they were deleted. `part`: the index or the role of the pods that the user
    named; "" for all pods. `entry`: the record in the ledger, if the objects were deleted."""

    kind: str
    namespace: str
    name: str
    members: tuple[Member, ...] = ()
    part: str = ""
    entry: JobEntry | None = None

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.id}/{self.part}" if self.part else self.id


@dataclass(frozen=True, slots=True)
class _Reading:
    """A possible meaning of a typed name. `kind`: the kind that the user typed; "" for any kind."""

    namespace: str
    name: str
    part: str = ""
    kind: str = ""


class Finder:
    """Finds jobs by their names. `namespace`: the namespace for names without a namespace. `ledger`: the URL of the
    ledger; None if deleted jobs are not searched."""

    def __init__(self, connection: Connection, namespace: str, ledger: str | None = None) -> None:
        self._connection, self._namespace, self._ledger = connection, namespace, ledger
        self._operators: tuple[Kind, ...] | None = None

    async def all(self, texts: Sequence[str]) -> list[FoundJob]:
        """Return the jobs with these names, in this order. Raises PhalanxError for the first name that no job has."""
        return [await self.one(text) for text in dict.fromkeys(texts)]

    async def one(self, text: str) -> FoundJob:
        """Return the job with this name. Raises PhalanxError, with similar names, if there is no such job."""
        readings = [*_readings(text, self._namespace)]
        for reading in readings:
            if (found := await self._live(reading)) is not None:
                return found
        for reading in readings:
            if (found := await self._of_dialect(reading)) is not None:
                return found
        if (found := self._ended(text, readings)) is not None:
            return found
        raise PhalanxError(await self._unknown(text, readings))

    # --- in the cluster -----------------------------------------------------------------------------------------------

    async def _live(self, reading: _Reading) -> FoundJob | None:
        if reading.kind == _SLURM:
            return await self._of_slurm(reading)
        if reading.part and not reading.kind and (task := await self._task(reading)) is not None:
            return task
        kinds = [kind for kind in (JOBS, PODS) if _is_word(reading.kind, kind)]
        kinds += [kind for kind in await self.served() if _is_word(reading.kind, kind)]
        gets = [self._get(kind, reading) for kind in kinds]
        labels = [] if reading.kind else [JOB] if reading.part else [JOB, ARRAY]
        several = [self._labelled(label, reading) for label in labels]
        objects, groups = await asyncio.gather(asyncio.gather(*gets), asyncio.gather(*several))
        singles = [Member(kind=kind, obj=obj) for kind, obj in zip(kinds, objects, strict=True) if obj is not None]
        gang, array = (*groups, (), ())[:2]
        if array:
            ordered = tuple(sorted(array, key=lambda one: _natural(one.name)))
            return FoundJob(kind=ARRAY_OF_JOBS, namespace=reading.namespace, name=reading.name, members=ordered)
        if singles:
            return _single(singles[0], reading)
        if gang:
            return FoundJob(kind=_GANG, namespace=reading.namespace, name=reading.name, members=gang, part=reading.part)
        return None

    async def _task(self, reading: _Reading) -> FoundJob | None:
        """Return the array task NAME/INDEX; None if it does not exist."""
        named = replace(reading, name=f"{reading.name}-{reading.part}", part="")
        obj = await self._get(JOBS, named)
        if obj is None or option(obj["metadata"], ARRAY) != reading.name:
            return None
        return _single(Member(kind=JOBS, obj=obj), named)

    async def _get(self, kind: Kind, reading: _Reading) -> Object | None:
        try:
            return await self._connection.get(kind, reading.name, reading.namespace)
        except ApiRefusal as error:
            if error.code not in {400, 403, 404}:
                raise
            return None

    async def _labelled(self, label: str, reading: _Reading) -> tuple[Member, ...]:
        """Return the Jobs whose label `label` has the typed name as its value. If it is the label of gangs, also return
        the pods with this label that no Job controls."""
        if not _LABEL_VALUE.fullmatch(reading.name):
            return ()
        found: list[Member] = []
        for kind in (JOBS, PODS) if label == JOB else (JOBS,):
            items = await self._listed(kind, reading.namespace, labelSelector=f"{label}={reading.name}")
            found += [Member(kind=kind, obj=obj) for obj in items if kind is JOBS or not controller_of(obj)]
        return tuple(found)

    async def _of_dialect(self, reading: _Reading) -> FoundJob | None:
        """Return the gang with the name that the user typed, if the gang consists of bare pods with labels of another
        scheduler; otherwise None."""
        if reading.kind:
            return None
        pods = (await self._gangs_of_dialects(reading.namespace)).get(reading.name)
        if not pods:
            return None
        members = tuple(Member(kind=PODS, obj=pod) for pod in pods)
        return FoundJob(kind=_GANG, namespace=reading.namespace, name=reading.name, members=members, part=reading.part)

    async def _gangs_of_dialects(self, namespace: str) -> dict[str, list[Object]]:
        """Return the gangs that labels of another scheduler define: name -> the bare pods of the gang."""
        from phalanx.dialects.enabled import DIALECTS

        found: dict[str, list[Object]] = {}
        for pod in await self._listed(PODS, namespace):
            scheduler = pod["spec"].get("schedulerName") or ""
            each = (one.options_of(PODS.name, pod["metadata"], scheduler).get(JOB) for one in DIALECTS.values())
            if not controller_of(pod) and (gang := next(filter(None, each), "")):
                found.setdefault(gang.rpartition(":")[2], []).append(pod)
        return found

    async def _listed(self, kind: Kind, namespace: str, **params: str) -> list[Object]:
        try:
            items: list[Object] = (await self._connection.list(kind, namespace, **params))["items"]
        except ApiRefusal as error:
            if error.code not in {403, 404}:
                raise
            return []
        return items

    async def _of_slurm(self, reading: _Reading) -> FoundJob | None:
        """Return the job with this job number of Slurm, or the array with this number and all its tasks."""
        if reading.part:
            named = replace(reading, name=f"slurm-{reading.name}-{int(reading.part):07}", part="")
            obj = await self._get(JOBS, named)
            return None if obj is None else _single(Member(kind=JOBS, obj=obj), named)
        for label, kind in ((f"{_SLURM}array", ARRAY_OF_JOBS), (f"{_SLURM}number", "job")):
            items = await self._listed(JOBS, reading.namespace, labelSelector=f"{label}={reading.name}")
            if items:
                members = tuple(Member(kind=JOBS, obj=obj) for obj in items)
                name = reading.name if kind == ARRAY_OF_JOBS else members[0].name
                return FoundJob(kind=kind, namespace=reading.namespace, name=name, members=members)
        return None

    async def served(self) -> tuple[Kind, ...]:
        """Return the kinds of jobs of other operators, such as PyTorchJob, that the API server serves."""
        if self._operators is None:
            try:
                groups = (await self._connection.request("GET", "/apis")).get("groups") or ()
            except ApiRefusal:
                groups = ()
            versions = {one["groupVersion"] for group in groups for one in group.get("versions") or ()}
            self._operators = tuple(kind for kind in _OPERATORS if kind.api_version in versions)
        return self._operators

    # --- in the ledger ------------------------------------------------------------------------------------------------

    def _ended(self, text: str, readings: Sequence[_Reading]) -> FoundJob | None:
        if self._ledger is None:
            return None
        from phalanx.ledger.entry import ARRAY as TASK_OF
        from phalanx.ledger.store import Ledger, LedgerError

        number = int(text) if text.isdigit() else None
        try:
            with Ledger.open(self._ledger, read_only=True) as ledger:
                entries = recorded(ledger, text, self._namespace)
        except LedgerError:
            return None
        for reading in readings:
            task = f"{reading.name}-{reading.part}"
            for entry in reversed(entries):
                kind, name = entry.made
                word, here = kind_word(kind), entry.namespace == reading.namespace
                if (here and reading.kind in {"", word} and name == reading.name) or entry.number == number is not None:
                    return FoundJob(kind=word, namespace=entry.namespace, name=name, part=reading.part, entry=entry)
                if here and not reading.kind and entry.words.get(TASK_OF) == reading.name:
                    if not reading.part:
                        raise PhalanxError(
                            f"the tasks of array {reading.namespace}/{reading.name} were deleted. Name one of them: "
                            f"{reading.name}/{name.rpartition('-')[2]}. `phalanx history {reading.name}` lists them."
                        )
                    if name == task:
                        return FoundJob(kind=word, namespace=entry.namespace, name=name, entry=entry)
        return None

    # --- not found --------------------------------------------------------------------------------------------------

    async def _unknown(self, text: str, readings: Sequence[_Reading]) -> str:
        """Return the error message for an unknown name. It lists jobs with similar names, or jobs with the same name in
        other namespaces."""
        here = readings[0]
        known = [*await self.names(here.namespace), *await self._gangs_of_dialects(here.namespace)]
        named = {*known, *self._past_names(here.namespace)} - {here.name}
        near = difflib.get_close_matches(here.name, sorted(named), 3, 0.6)
        elsewhere = await self._listed(JOBS, "", fieldSelector=f"metadata.name={here.name}")
        others = [f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" for obj in elsewhere]
        shown = f"{here.namespace}/{here.name}" if here.kind != _SLURM else text
        shown += f"/{here.part}" if here.part else ""
        said = f"there is no job {shown}"
        if others:
            said += f". There is {', '.join(others[:3])}"
        elif near:
            said += f". Did you mean {' or '.join(near)}?"
        elif known:
            said += f". The jobs there are: {', '.join(known[:_SHOWN])}"
        else:
            said += ". The namespace has no jobs"
        end = "" if said.endswith("?") else "."
        return f"{said}{end} `phalanx jobs -A` lists all jobs, `phalanx history` also deleted ones."

    def _past_names(self, namespace: str) -> list[str]:
        """Search the last `_PAST` ended jobs in the ledger, and return the names of those in the namespace."""
        if self._ledger is None:
            return []
        from phalanx.ledger.store import Ledger, LedgerError

        try:
            with Ledger.open(self._ledger, read_only=True) as ledger:
                return [entry.made[1] for entry in ledger.ended(_PAST) if entry.namespace == namespace]
        except LedgerError:
            return []

    async def names(self, namespace: str) -> list[str]:
        """Return the names of all jobs that exist in a namespace of the cluster."""
        jobs = await self._listed(JOBS, namespace)
        pods = [pod for pod in await self._listed(PODS, namespace) if not controller_of(pod)]
        operators = [await self._listed(kind, namespace) for kind in await self.served()]
        named = [obj["metadata"] for items in (jobs, pods, *operators) for obj in items]
        gangs = [name for meta in named for label in (JOB, ARRAY) if (name := option(meta, label))]
        return list(dict.fromkeys([*(meta["name"] for meta in named), *gangs]))


def recorded(ledger: Ledger, text: str, namespace: str) -> list[JobEntry]:
    """Return the ledger's entries for jobs with the name `text`, in the order of their submission. `namespace`: the
    namespace for a name without a namespace. Raises LedgerError."""
    from phalanx.ledger.entry import ARRAY as TASK_OF
    from phalanx.ledger.selection import Selection

    readings = [one for one in _readings(text, namespace) if one.kind != _SLURM]
    parts = {(one.namespace, one.name): one.part for one in readings}
    names = tuple(sorted(f"{one.namespace}/{one.name}" for one in readings))
    tasks = [
        entry
        for entry in ledger.jobs(Selection(arrays=names))
        for part in [parts.get((entry.namespace, entry.words.get(TASK_OF, "")), "")]
        if not part or entry.made[1] == f"{entry.words[TASK_OF]}-{part}"
    ]
    asked = [Selection(made=names)]
    if _SLURM_ID.fullmatch(text) and text.isdigit():
        asked.append(Selection(numbers=(int(text),)))
    found = [*tasks, *(entry for each in asked for entry in ledger.jobs(each))]
    return sorted(found, key=lambda entry: entry.submit_s)


async def pods_of(connection: Connection, job: FoundJob) -> list[Object]:
    """Return the pods of a job, or of the named part of the job, sorted by index and name."""
    found: dict[str, Object] = {}
    for member in job.members:
        if member.kind is PODS:
            found[member.obj["metadata"]["uid"]] = member.obj
    for selector in pod_selectors(job.members):
        for pod in (await connection.list(PODS, job.namespace, labelSelector=selector))["items"]:
            found[pod["metadata"]["uid"]] = pod
    pods = sorted(found.values(), key=_order)
    return [pod for pod in pods if not job.part or job.part in parts_of(pod)]


def parts_of(pod: Object) -> set[str]:
    """Return the texts by which a user may name the pod within its job: its index, its role and its name."""
    meta = pod["metadata"]
    found = {value for key in _PART_LABELS if (value := option(meta, key))}
    return {*found, str(meta["name"]), *(value.removeprefix(f"{option(meta, JOB)}-") for value in found)}


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference to the controller of this object; None if no object controls it."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def reference_text(reference: Object) -> str:
    """Return KIND/NAME for an owner reference."""
    group = str(reference.get("apiVersion", "")).rpartition("/")[0]
    return f"{_kind_text(reference['kind'], group)}/{reference['name']}"


def kind_text(kind: Kind) -> str:
    """Return the name of a kind. For a kind `Job` that is not the Job of Kubernetes, append the API group:
    `Job.batch.volcano.sh`."""
    return _kind_text(kind.name, kind.group)


def _kind_text(name: str, group: str) -> str:
    return f"{name}.{group}" if name == JOBS.name and group != JOBS.group else name


# --- readings -------------------------------------------------------------------------------------------------------


def _readings(text: str, namespace: str) -> Iterator[_Reading]:
    """Yield the possible meanings of a typed name, the most likely one first. Raises PhalanxError if the text cannot
    name a job."""
    words = text.strip().split("/")
    if not all(words) or len(words) > 3:
        raise PhalanxError(
            f"{text!r} names no job: write NAME, NAMESPACE/NAME, KIND/NAME, or NAME/INDEX for a task or a pod."
        )
    if len(words) > 1 and any(_is_word(words[0].lower(), one) for one in _ALL):
        yield from _named(words[1:], namespace, words[0].lower())
    yield from _named(words, namespace, "")
    if len(words) == 1 and (number := _SLURM_ID.fullmatch(text)):
        yield _Reading(namespace, number[1], number[2] or "", _SLURM)


_ALL = (JOBS, PODS, *_OPERATORS)


def _named(words: Sequence[str], namespace: str, kind: str) -> Iterator[_Reading]:
    """Yield the possible meanings of one to three words: NAME, NAMESPACE/NAME or NAME/PART, NAMESPACE/NAME/PART.
    `kind`: the kind that the user typed before these words; "" for any kind."""
    kind = kind or ("pod" if any(word.startswith("pod:") for word in words) else "")
    first, *rest = (word.removeprefix("pod:") for word in words)
    match rest:
        case []:
            yield _Reading(namespace, first, kind=kind)
        case [second]:
            inside = _Reading(namespace, first, second, kind)
            yield from (inside,) if second.isdigit() else ()
            yield _Reading(first, second, kind=kind)
            yield from () if second.isdigit() else (inside,)
        case [second, part]:
            yield _Reading(first, second, part, kind)


def _is_word(word: str, kind: Kind) -> bool:
    """Return True if `word` is a name of the kind. The word "" is a name of every kind."""
    return word in {"", kind.name.lower(), kind.plural, f"{kind.plural}.{kind.group}", kind_word(kind_text(kind))} and (
        word not in {"job", "jobs"} or kind is not VOLCANO_JOBS
    )


def kind_word(kind: str) -> str:
    """Return kubectl's short word for a kind. `kind`: the kind in the form that `kind_text` returns."""
    return "vcjob" if kind == kind_text(VOLCANO_JOBS) else kind.lower()


# --- members --------------------------------------------------------------------------------------------------------


def _single(member: Member, reading: _Reading) -> FoundJob:
    word = kind_word(kind_text(member.kind))
    return FoundJob(kind=word, namespace=reading.namespace, name=reading.name, members=(member,), part=reading.part)


def pod_selectors(members: Sequence[Member]) -> Iterator[str]:
    """Yield label selectors for the pods that controllers create for these objects."""
    labels: dict[str, list[str]] = {}
    for member in members:
        if member.kind is not PODS:
            status = member.obj.get("status") or {}
            name = {**status, **(status.get("activeServiceStatus") or {})}.get("rayClusterName") or member.name
            labels.setdefault(_POD_LABELS.get(kind_text(member.kind), _TRAINING_LABEL), []).append(name)
    for label, names in labels.items():
        for at in range(0, len(names), 100):  # because the length of a URL is limited
            yield f"{label} in ({','.join(names[at : at + 100])})"


def _order(pod: Object) -> tuple[object, ...]:
    meta = pod["metadata"]
    index = option(meta, COMPLETION_INDEX) or ""
    job = option(meta, JOB_NAME) or ""
    return (_natural(job), int(index) if index.isdigit() else -1, meta.get("creationTimestamp") or "", meta["name"])


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key with which `sweep-10` comes after `sweep-9`."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text))
