"""The record of a job in the ledger, and of each of its starts.

The key of a job is the uid of its oldest object, because a name may be used again after a deletion. The key of a start
is the time at which the start was decided, which is also in the annotation `phalanx.dev/admitted`. So after a change of
the leader, the new scheduler updates the row that the earlier leader created. A write always replaces the whole record,
so writing a record twice changes nothing.

The states are some of the states of Slurm's accounting (sacct(1), JOB STATE CODES).

The module also writes entries to an *archive*: a file with one job per line as JSON, compressed with gzip.

An archive is written to a temporary file, synced to disk and then renamed. So a file with the final name is complete,
and its entries can be purged from the ledger. `phalanx ledger load` writes only entries that the ledger does not have,
so existing entries do not change."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec

from phalanx.errors import PhalanxError


class State(StrEnum):
    """The state of a job or of one of its starts."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"  # the start of the job is decided, but not all of its pods are bound yet
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"  # the job was deleted before it had ended
    PREEMPTED = "PREEMPTED"  # the end of a start, not of a job: the job was preempted and waits again
    REQUEUED = "REQUEUED"  # the end of a start, not of a job: the start was undone after all pods were bound
    LAUNCH_FAILED = "LAUNCH_FAILED"  # the end of a start, not of a job: not all pods could be bound


OBJECT = "object"  # key in `words`: KIND.GROUP/NAME of the object that the user created, if `job` has another name
ARRAY = "task-of"  # key in `words`: the name of the array of which the job is a task
MOST_REASONS = 50  # the maximum number of reasons that are kept for a job
RESERVED = "NodesReserved"  # the code in `reasons` that marks the time when the job got the first reservation
FILE = "ledger.sqlite3"  # the name of the ledger file in a data directory
LIVE = frozenset({State.PENDING, State.CONFIGURING, State.RUNNING})


def url_of(file: Path) -> str:
    """Return the URL of the ledger in this file."""
    return f"sqlite:///{file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonEntry:
    """A change of the reason why a job waits. `code`: the new reason code. `at_s`: when it became the reason, in
    seconds since the epoch."""

    at_s: float
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEntry:
    """A start of a job. `at_s`, `end_s`: when the start was decided, and when it ended, in seconds since the epoch;
    `end_s` is None while the job runs. `nodes`: the node of each pod, sorted. `allocated`: the sum of the requests of
    its pods (cpu in millicores, other resources in whole units). `by`, `rule`: the job that preempted this start, and
    the rule that allowed it; empty if the start was not preempted, or if the preemptor is not known. `backfilled`: True
    if the start was a backfill, that is, the job started before an earlier job without delaying the reservation of that
    job."""

    at_s: float
    state: State
    end_s: float | None = None
    nodes: tuple[str, ...] = ()
    allocated: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""  # why the start was undone: `Code: text`
    by: str = ""
    rule: str = ""
    backfilled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEntry:
    """A job. Times are seconds since the epoch; None if not yet reached or unknown.

    `job`: the job's id, `namespace/name`. `kind`: the kind of its object. `account`: the path of its queue when it was
    submitted, from the root: `company/research/vision`. `requested`: the requests of all its pods. `limit_s`: its time
    limit. `exit_code`: the highest exit code of its pods (0 to 255). `signal`: the signal that ended the pod with that
    exit code, if a signal ended it. `cause`: why the job ended, as text. `waits_for`: the code of the last reason why
    the job waited.
    `exact_end`: False if the job ended while no scheduler ran; then `end_s` is the time at which this was noticed.
    `number`: Slurm's job number, if the job has one. `words`: further facts from its submitter (partition, comment,
    command line), by name. `reasons`: the last changes of the reason why the job waits, at most `MOST_REASONS`, in
    order.
    `starts`: the starts of the job in order; the last one is the current or final start."""

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
    reasons: tuple[ReasonEntry, ...] = ()
    starts: tuple[StartEntry, ...] = ()

    @property
    def name(self) -> str:
        """Return the job's name without its namespace."""
        return self.words.get("name") or self.job.partition("/")[2]

    @property
    def namespace(self) -> str:
        return self.job.partition("/")[0]

    @property
    def made(self) -> tuple[str, str]:
        """Return the kind (with its API group, if it is not Kubernetes' own) and the name of the object that the user
        made."""
        if OBJECT in self.words:
            kind, _, name = self.words[OBJECT].partition("/")
            return kind, name
        name = self.job.partition("/")[2]
        return self.kind, name.removeprefix("pod:") if self.kind == "Pod" else name

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def start_s(self) -> float | None:
        """Return the time at which the last start was decided; None for a pending job."""
        return self.starts[-1].at_s if self.starts and self.state is not State.PENDING else None

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes of the last start, each once."""
        return tuple(dict.fromkeys(self.starts[-1].nodes)) if self.starts else ()

    @property
    def allocated(self) -> Mapping[str, int]:
        return self.starts[-1].allocated if self.starts else {}

    def elapsed_s(self, now_s: float) -> float:
        """Return the run time of the last start, up to now or to its end; 0.0 for a pending job."""
        if self.start_s is None:
            return 0.0
        ends = (self.starts[-1].end_s, self.end_s, now_s)
        return max(0.0, next(end for end in ends if end is not None) - self.start_s)

    def held_s(self, now_s: float) -> float:
        """Return the number of seconds for which the job had allocated nodes, summed over its starts."""
        ends = ((start, start.end_s if start.end_s is not None else self.end_s) for start in self.starts)
        return sum(max(0.0, (now_s if end is None else end) - start.at_s) for start, end in ends)

    def resource_seconds(self, resource: str, now_s: float) -> float:
        """Return the allocated amount times seconds, summed over all starts. The amount is in the resource's unit
        (millicores for cpu)."""
        total = 0.0
        for start in self.starts:
            end_s = start.end_s if start.end_s is not None else self.end_s
            total += start.allocated.get(resource, 0) * max(0.0, (now_s if end_s is None else end_s) - start.at_s)
        return total


def write_archive(file: Path, entries: Iterable[JobEntry]) -> int:
    """Write the entries to `file`, readable only by its owner; return their number. Raises PhalanxError."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    encoder, count = msgspec.json.Encoder(), 0
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                for entry in entries:
                    packed.write(encoder.encode(entry) + b"\n")
                    count += 1
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(file)
    except OSError as error:
        raise PhalanxError(f"{file} cannot be written: {error.strerror or error}. Nothing was purged.") from error
    finally:
        part.unlink(missing_ok=True)
    return count


def read_archive(file: Path) -> Iterator[JobEntry]:
    """Yield the entries in the order of the file. Raises PhalanxError with the number of an unreadable line."""
    decoder, number = msgspec.json.Decoder(JobEntry), 0
    try:
        with gzip.open(file, "rb") as lines:
            for line in lines:
                number += 1
                yield decoder.decode(line)
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        where = f", line {number}" if isinstance(error, msgspec.MsgspecError) else ""
        raise PhalanxError(f"{file}{where} is not an archive of a ledger: {error}") from error
