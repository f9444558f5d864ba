"""The outside of a gang, as a recording: what its parts asked for, and answers when a test gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.kube.gang.effects import Answered, GangTimeouts, RoleStart, WriteOutcome
from phalanx.kube.gang.lifecycle import decisions
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.reconcile import advance
from phalanx.kube.gang.objects import GangObjects
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.seat_table import GangSeats
from phalanx.kube.gang.spec.gang_spec import GangDefaults, GangSpec
from phalanx.kube.gang.spec.members import JobPods
from phalanx.kube.read.node import read_node
from phalanx.kube.read.pod import Pod, read_pod
from phalanx.kube.read.records import PreemptionMark, StartRecord
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.template.pod_shape import ShapeCache
from phalanx.kube.read.workload.adapter import job_owner
from phalanx.kube.read.workload.batch_job import BatchJob, read_job
from phalanx.model.event import Event
from phalanx.model.job import Job, Placement, Role
from phalanx.model.plan import Start
from phalanx.model.pod import Shape, amounts
from phalanx.model.reason import Reason
from tests.kube import double

SHAPES = ShapeCache()
DEFAULTS = GangDefaults(largest=dict)
PLACED = (Placement(0, 0, "n1"), Placement(0, 1, "n1"))


@dataclass
class Asked:
    """One write that was asked for: `what` and its words."""

    what: str
    about: str
    words: tuple[Any, ...]
    answered: Callable[..., None] = lambda *_: None


@dataclass
class RecordedEffects:
    """`asked`: writes in order. `told`: events for the core. `reports`: to people."""

    allocations: NodeAllocations = field(default_factory=NodeAllocations)
    timeouts: GangTimeouts = field(default_factory=GangTimeouts)
    time_s: float = 100.0
    asked: list[Asked] = field(default_factory=list)
    told: list[Event] = field(default_factory=list)
    reports: list[tuple[str, str]] = field(default_factory=list)
    waiting: list[Callable[[], None]] = field(default_factory=list)

    @property
    def jobs(self) -> RecordedEffects:
        return self

    @property
    def pods(self) -> RecordedEffects:
        return self

    def now_s(self) -> float:
        return self.time_s

    def emit_event(self, event: Event) -> None:
        self.told.append(event)

    def report(self, about: BatchJob | Pod, reason: str, text: str, *, warning: bool = False) -> None:
        self.reports.append((about.name, f"{reason}: {text}"))

    def drop_wait_reason(self, gang: str) -> None:
        self.reports.append((gang, "waits no more"))

    def retry_later(self, gang: str, refusals: int, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def resume(self, gang: str, roles: Sequence[RoleStart], record: StartRecord, answered: Answered) -> None:
        self._note("resume", roles[0].job, (tuple(role.parallelism for role in roles), record), answered)

    def suspend(
        self, gang: str, job: BatchJob, why: Reason, mark: PreemptionMark | None, hold: str, answered: Answered
    ) -> None:
        self._note("suspend", job, (why, mark, hold), answered)

    def resize(self, gang: str, job: BatchJob, parallelism: int, answered: Answered) -> None:
        self._note("resize", job, (parallelism,), answered)

    def explain(self, job: BatchJob, text: str) -> None:
        self._note("explain", job, (text,))

    def bind(
        self, gang: str, pod: Pod, node: str, devices: tuple[str, ...], record: StartRecord | None, answered: Answered
    ) -> None:
        self._note("bind", pod, (node,), answered)

    def select_node(self, pod: Pod, node: str) -> None:
        self._note("select", pod, (node,))

    def read_budgets(self, gang: str, by: str, pods: Sequence[Pod], answered: Callable[[str], None]) -> None:
        self._note("budgets", pods[0], (len(pods),), answered)

    def mark(self, gang: str, pod: Pod, mark: PreemptionMark, answered: Answered) -> None:
        self._note("mark", pod, (mark,), answered)

    def evict(
        self,
        gang: str,
        pod: Pod,
        grace_s: float | None,
        answered: Answered,
        condition: Mapping[str, str] | None = None,
    ) -> None:
        self._note("evict", pod, (grace_s,) if condition is None else (grace_s, condition), answered)

    def _note(
        self, what: str, about: BatchJob | Pod, words: tuple[Any, ...], answered: Callable[..., None] = lambda *_: None
    ) -> None:
        self.asked.append(Asked(what, about.name, words, answered))

    # --- for tests ------------------------------------------------------------------------------------------------

    def names(self, what: str) -> list[str]:
        return [asked.about for asked in self.asked if asked.what == what]

    def answer(self, what: str, answer: WriteOutcome = WriteOutcome.DONE, text: str = "") -> None:
        """Every write of that kind that was asked for so far, once."""
        found = [asked for asked in self.asked if asked.what == what]
        self.asked = [asked for asked in self.asked if asked.what != what]
        for asked in found:
            asked.answered(answer, text)

    def try_again(self) -> None:
        found, self.waiting = self.waiting, []
        for call in found:
            call()

    def of(self, kind: type) -> list[Any]:
        """The events of that kind."""
        return [event for event in self.told if isinstance(event, kind)]


def a_job(name: str = "j", pods: int = 3, *, uid: str = "j", **spec: Any) -> BatchJob:
    obj = double.job(name, pods)
    meta = {**obj["metadata"], "uid": uid, "resourceVersion": "1", "annotations": spec.pop("annotations", {})}
    return read_job({**obj, "metadata": meta, "spec": {**obj["spec"], **spec}}, AdmissionDefaults())


def a_pod(name: str, *, job: str = "", cpu: str = "1", node: str = "", phase: str = "Pending", **rest: Any) -> Pod:
    """`job`: the uid of the Job that owns it."""
    obj = double.pod(name, cpu, node=node, **rest.pop("said", {}))
    owners = [{"kind": "Job", "name": job, "uid": job, "controller": True}] if job else []
    meta = {**obj["metadata"], "uid": name, "resourceVersion": "1", "ownerReferences": owners, **rest.pop("meta", {})}
    return read_pod({**obj, "metadata": meta, "status": {"phase": phase, **rest}}, SHAPES, owner=job_owner(meta))


def nodes(effects: RecordedEffects, *names: str, cpu: int = 4) -> None:
    for name in names:
        effects.allocations.see_node(read_node(double.node(name, cpu)))


def started(
    effects: RecordedEffects, *, pods: int, nodes: Sequence[str], minimum: int | None = None, gang: bool = True
) -> GangStart:
    """Return the start of a Job `j` with `pods` pods, placed on these nodes in turn."""
    objects = GangObjects("default/j")
    objects.see_job(a_job("j", pods))
    shape = Shape(requests=amounts({"cpu": 1000, "pods": 1}))
    role = Role(name="j", count=pods, minimum=pods if minimum is None else minimum, shape=shape)
    job = Job(id="default/j", queue="default", roles=(role,), submitted_s=0.0)
    spec = GangSpec(job=job, sources=(JobPods("j"),))
    record = StartRecord(attempt=1, queue="default", count=pods, at_s=effects.now_s(), gang=gang)
    seats = GangSeats(job.roles, spec.sources)
    seats.plan([Placement(0, ordinal, node) for ordinal, node in enumerate(nodes)])
    return GangStart(effects, objects, spec, record, seats)


def waiting() -> tuple[RecordedEffects, GangLifecycle]:
    """Return a gang of one Job `j` of two pods that waits, and node n1."""
    effects = RecordedEffects()
    nodes(effects, "n1")
    gang = GangLifecycle("default/j", effects)
    gang.see_job(a_job("j", 2))
    advance(gang, DEFAULTS)
    return effects, gang


def starting() -> tuple[RecordedEffects, GangLifecycle]:
    """Return that gang, resumed and without pods."""
    effects, gang = waiting()
    decisions.start(gang, Start("default/j", 1, PLACED), whole=True)
    gang.see_job(a_job("j", 2, suspend=False))
    effects.answer("resume")
    advance(gang, DEFAULTS)
    return effects, gang


def running(defaults: GangDefaults = DEFAULTS) -> tuple[RecordedEffects, GangLifecycle]:
    """Return that gang with both pods bound to n1."""
    effects, gang = starting()
    for name in ("a", "b"):
        gang.see_pod(a_pod(name, job="j"))
    advance(gang, defaults)
    effects.answer("bind")
    for name in ("a", "b"):
        gang.see_pod(a_pod(name, job="j", node="n1"))
    advance(gang, defaults)
    return effects, gang
