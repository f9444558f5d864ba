"""What is recorded of a job, and of each of its starts.

A job is known by the uid of its oldest object, because a name may be given again after a deletion. A start is known by
the moment at which it was decided (`phalanx.dev/admitted` holds the same moment), so that a scheduler that takes over
writes to the row that its predecessor began. Both are whole values: writing one twice changes nothing.

The states are those of Slurm's accounting (sacct(1), JOB STATE CODES), as far as they can occur here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """Of a job, and of a start of it."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"  # decided; not all of its pods are bound yet
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"  # deleted before it had ended by itself
    PREEMPTED = "PREEMPTED"  # of a start: it gave way to another job, and the job waits again
    REQUEUED = "REQUEUED"  # of a start: it was taken back after all pods were bound
    LAUNCH_FAILED = "LAUNCH_FAILED"  # of a start: not all of its pods could be bound


LIVE = frozenset({State.PENDING, State.CONFIGURING, State.RUNNING})


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEntry:
    """A start of a job. `at_s`, `end_s`: seconds since the epoch; `end_s` None: it goes on. `nodes`: the node of each
    pod, sorted. `allocated`: amounts of all its pods (cpu in millicores, else whole units)."""

    at_s: float
    state: State
    end_s: float | None = None
    nodes: tuple[str, ...] = ()
    allocated: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""  # why it was taken back: `Code: text`


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEntry:
    """A job. Times are seconds since the epoch; None: not yet, or unknown.

    `job`: `namespace/name`, as the scheduler knows it. `kind`: of the object that it came as. `account`: the queue and
    all above it at the time of submission, the topmost first: `company/research/vision`. `requested`: amounts of all
    its pods. `limit_s`: how long it may run. `exit_code`: the highest of its pods (0 to 255); `signal`: what ended
    that one, if a signal did. `cause`: why it ended as it did, in words. `waits_for`: the code of the reason for which
    it waited last. `exact_end` False: it was found gone after nobody had looked for a while, and `end_s` is when that
    was noticed. `number`: Slurm's job number, if it was given one. `words`: what else its submitter said (partition,
    comment, command line), by name. `starts`: in
    order, the last one being the present or final one."""

    uid: str
    job: str
    kind: str = "Job"
    user: str = ""
    group: str = ""
    queue: str = ""
    account: str = ""
    qos: str = ""
    priority: int = 0
    submit_s: float = 0.0
    eligible_s: float | None = None
    limit_s: float | None = None
    pods: int = 0
    requested: Mapping[str, int] = field(default_factory=dict)
    state: State = State.PENDING
    waits_for: str = ""
    end_s: float | None = None
    exact_end: bool = True
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    number: int | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    starts: tuple[StartEntry, ...] = ()

    @property
    def name(self) -> str:
        """Without its namespace."""
        return self.words.get("name") or self.job.partition("/")[2]

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def start_s(self) -> float | None:
        """When its last start was decided."""
        return self.starts[-1].at_s if self.starts and self.state is not State.PENDING else None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of its last start, each once."""
        return tuple(dict.fromkeys(self.starts[-1].nodes)) if self.starts else ()

    @property
    def allocated(self) -> Mapping[str, int]:
        return self.starts[-1].allocated if self.starts else {}

    def elapsed_s(self, now_s: float) -> float:
        """How long its last start has run, or ran; 0.0 for a job that waits."""
        if self.start_s is None:
            return 0.0
        ends = (self.starts[-1].end_s, self.end_s, now_s)
        return max(0.0, next(end for end in ends if end is not None) - self.start_s)

    def held_s(self, now_s: float) -> float:
        """How long all its starts have held their allocation together."""
        ends = ((start, start.end_s if start.end_s is not None else self.end_s) for start in self.starts)
        return sum(max(0.0, (now_s if end is None else end) - start.at_s) for start, end in ends)

    def resource_seconds(self, resource: str, now_s: float) -> float:
        """Amount times seconds of all its starts, in the resource's unit (millicores for cpu)."""
        total = 0.0
        for start in self.starts:
            end_s = start.end_s if start.end_s is not None else self.end_s
            total += start.allocated.get(resource, 0) * max(0.0, (now_s if end_s is None else end_s) - start.at_s)
        return total
