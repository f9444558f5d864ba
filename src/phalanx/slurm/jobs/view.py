"""The class for a job as Slurm's commands show it (`JobInfo`), and the functions that read it from its Kubernetes Job
and pods. If these objects have been deleted, `jobs.ended` reads the job from the ledger, which is the accounting
database."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from phalanx.slurm.cluster.api import JOBS, PODS, ApiClient, listed
from phalanx.slurm.jobs.ask import ASK, DEADLINE_SLACK_S, NUMBER, Ask, Asks, Moment, printable
from phalanx.slurm.jobs.steps import records
from phalanx.slurm.jobs.steps.records import OUT_OF_MEMORY, StepRecord
from phalanx.slurm.notation import arrays

SHORT = {
    "PENDING": "PD", "RUNNING": "R", "SUSPENDED": "S", "COMPLETED": "CD", "CANCELLED": "CA", "FAILED": "F",
    "TIMEOUT": "TO", "PREEMPTED": "PR", "NODE_FAIL": "NF", "COMPLETING": "CG", "CONFIGURING": "CF",
    "OUT_OF_MEMORY": "OOM", "BOOT_FAIL": "BF", "DEADLINE": "DL", "REQUEUED": "RQ",
}  # fmt: skip
LIVE = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")
# The scheduler's reason code -> Slurm's JOB REASON CODE (squeue(1)). A test compares this table with
# dialects.frame.peer_reasons.
REASONS = {
    "NoRoom": "Resources", "NoDomain": "Resources", "PlacementRules": "Constraints", "Reserved": "Priority",
    "Preempting": "Resources", "Preempted": "Resources", "BehindHead": "Priority", "NeverFits": "BadConstraints",
    "WaitingForNodes": "Resources",
    "NoNodeMatches": "BadConstraints", "QueueHeld": "PartitionDown", "QueueClosed": "PartitionInactive",
    "QueueLimit": "AssocGrpCpuLimit", "QueueQuota": "AssocGrpCpuLimit", "NeverWithinLimit": "AssocMaxCpuPerJobLimit",
    "UserLimit": "QOSMaxJobsPerUserLimit", "BeginTime": "BeginTime", "DeadlineMissed": "DeadLine",
    "Dependency": "Dependency", "DependencyNeverSatisfied": "DependencyNeverSatisfied",
    "ArrayLimit": "JobArrayTaskLimit", "Held": "JobHeldUser", "QueueUnknown": "InvalidAccount",
    "RoomKept": "Resources", "Backoff": "BeginTime", "Invalid": "BadConstraints", "Unsupported": "BadConstraints",
    "QueueMisconfigured": "PartitionConfig", "Rejected": "JobLaunchFailure", "StaleGang": "JobLaunchFailure",
}  # fmt: skip
# Reasons that are shown as Priority for jobs with a lower priority than the first job that waits for Resources.
_BEHIND = frozenset({"Resources", "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit"})
SUSPENDED = "slurm.phalanx.dev/suspended"  # annotation: since when the job is suspended (seconds since the epoch)
_LOOKED_AT_S = 0.5
_HELD_LOOK_S = 30.0
_INDEX = "batch.kubernetes.io/job-completion-index"
_DIGITS = 10  # the maximum number of digits of a job number
_LATEST_S = 1e11
BY_SIGNAL = "JobLaunchFailure"  # the reason that Slurm shows if a signal ended the script
_NUMBERS = "phalanx.dev/reason-numbers"  # annotation of the scheduler: numbers of the reason, as JSON
_OVERDUE_S = 60.0  # an expected start is shown until this long after its time
_BASIC = 4294901760  # the first job's priority under Slurm's priority/basic; each later job has a priority lower by 1


class JobInfo(msgspec.Struct, kw_only=True):
    """A job or a task of an array. `nodes`: the nodes of the job, the batch node first. `others`: the indexes of
    further tasks of the same array that squeue shows in the same line. `namespace`: the namespace of the Job; "" if the
    Job was deleted. `expected_s`, `schednodes`: the expected start and nodes of a pending job. `past`: (start, end) of
    each run before the job was requeued. Times are in seconds since the epoch."""

    number: int
    ask: Ask
    state: str
    namespace: str = ""
    reason: str = "None"
    submit_s: float = 0.0
    eligible_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    nodes: tuple[str, ...] = ()
    restarts: int = 0
    exit_code: int = 0
    signal: int = 0
    cancelled_by: str = ""
    held: bool = False
    others: list[int] = []
    steps: dict[int, StepRecord] = {}
    expected_s: float | None = None
    schednodes: tuple[str, ...] = ()
    past: list[tuple[float, float | None]] = []

    @property
    def base(self) -> int:
        """Return the number of the job's array, or the job's own number."""
        return self.number if self.ask.array is None else self.ask.array

    @property
    def own(self) -> int:
        """Return the job number that Slurm shows. A pending task of an array, and tasks that were cancelled together,
        show the number of the array instead of their own."""
        return self.base if self.ask.task is not None and (self.others or self.state == "PENDING") else self.number

    @property
    def first(self) -> int:
        """Return the job number of the heterogeneous job's first component. For other jobs return the number of the
        array, or else the number of the job."""
        return self.base if self.ask.het is None else self.ask.het

    @property
    def id(self) -> str:
        """Return the job id that squeue prints: `12`, `12+1`, `12_3`, `12_[4-6%2]`."""
        if self.ask.het is not None:
            return f"{self.ask.het}+{self.ask.het_offset}"
        if self.ask.task is None:
            return str(self.number)
        if not self.others:
            return f"{self.base}_{self.ask.task}"
        return f"{self.base}_{arrays.shown([self.ask.task, *self.others], self.ask.throttle)}"

    @property
    def cpus(self) -> int:
        """Return the CPUs that the job holds or held: all CPUs of exclusive nodes, and at least --mincpus of other
        nodes. For a pending job, return the requested CPUs."""
        if self.state == "PENDING" and self.ask.waiting_tasks:
            return self.ask.waiting_tasks * self.ask.cpus_per_task
        return sum(self.ask.cpus_of_nodes) if self._has_nodes else self.ask.cpus

    @property
    def tasks(self) -> int:
        return self.ask.waiting_tasks or self.ask.tasks if self.state == "PENDING" else self.ask.tasks

    @property
    def node_count(self) -> int:
        """Return the number of nodes that Slurm shows."""
        return self.ask.shown_nodes if self.state == "PENDING" else self.ask.node_count

    @property
    def total_mib(self) -> int:
        return (self.ask.memory_mib or 0) * self.cpus if self.ask.per_cpu else self.ask.total_mib

    @property
    def _has_nodes(self) -> bool:
        more = (self.ask.exclusive and self.ask.node_cpus > 0) or max(self.ask.min_cpus, self.ask.least_cpus) > 1
        return more and self.start_s is not None and self.state != "PENDING"

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def priority(self) -> int:
        if self.held:
            return 0
        if not self.ask.rank:
            return max(1, _BASIC - self.number - self.ask.nice)
        until_s = self.start_s if self.start_s is not None else time.time()
        waited_s = max(0.0, until_s - self.eligible_s) if self.eligible_s is not None else 0.0
        return max(1, int(self.ask.rank + waited_s * self.ask.rank_per_s - self.ask.nice))

    @property
    def elapsed_s(self) -> float:
        if self.start_s is None or self.state == "PENDING":
            return 0.0
        return (self.end_s if self.end_s is not None else time.time()) - self.start_s

    @property
    def status(self) -> str:
        """Return the exit status of the job, as `code:signal`."""
        return f"{0 if self.signal else self.exit_code}:{self.signal}"

    def out_of_memory(self) -> None:
        """Set the exit status and the state of a job whose pod the kernel killed because memory ran out."""
        self.exit_code, self.signal = 0, OUT_OF_MEMORY
        if self.state == "FAILED":
            self.state, self.reason = "OUT_OF_MEMORY", "OutOfMemory"


class ReasonNumbers(msgspec.Struct):
    """The numbers that the scheduler writes with the reason why a job is pending. `enough_s`: when enough capacity or
    quota is expected to be released. `reservation`: the advance reservation whose nodes the job may not use, or the
    reservation that the job requested."""

    enough_s: Moment | None = None
    reservation: str = ""


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""
    creationTimestamp: str = ""  # noqa: N815 - the API's name
    deletionTimestamp: str | None = None  # noqa: N815 - the API's name
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct):
    suspend: bool = False


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str = ""
    lastTransitionTime: str | None = None  # noqa: N815 - the API's name


class _Status(msgspec.Struct):
    startTime: str | None = None  # noqa: N815 - the API's name
    completionTime: str | None = None  # noqa: N815 - the API's name
    conditions: list[_Condition] = []


class _Job(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class _Pods(msgspec.Struct):
    items: list[_Pod]


def jobs(
    api: ApiClient,
    numbers: Iterable[int] | None = None,
    *,
    places: bool = True,
    live: bool = False,
    users: Iterable[str] = (),
) -> list[JobInfo]:
    """Return the jobs whose objects exist, sorted by number.

    `numbers`: the numbers of the wanted jobs and arrays; None: all jobs. `places`: True if the nodes of the jobs are
    read as well. `live`: True if the server should leave out jobs that have ended. `users`: the users whose jobs the
    server should send; empty: all users. A server that does not support the last two options sends all jobs, so the
    caller must check the state and the user of each job.
    """
    asked = None if numbers is None else list(numbers)
    if asked is not None and not asked:
        return []
    narrowed = {"live": "true"} if live else {}
    found = _listed(api, asked, narrowed | ({"users": ",".join(sorted(users))} if users else {}))
    if users and asked is None and any(job.reason == "Resources" and job.state == "PENDING" for job in found):
        # `_rank` needs the jobs of other users, because they may have higher priorities
        found = _listed(api, asked, narrowed)
    if places and any(job.start_s is not None for job in found):
        _place(api, found, asked)
    if asked is None:
        _rank(found)
    return sorted(found, key=lambda job: job.number)


def _rank(found: list[JobInfo]) -> None:
    """Set the reason of pending jobs to Priority if another job of their partition has a higher priority and waits for
    Resources. As in Slurm, this also replaces the reason of jobs that exceed a limit on running jobs."""
    seen: dict[str, int] = {}
    for job in sorted(found, key=lambda job: -job.priority):
        if job.state != "PENDING":
            continue
        if job.reason == "Resources":
            seen.setdefault(job.ask.partition, job.first)
        if job.reason in _BEHIND and seen.get(job.ask.partition, job.first) != job.first:
            job.reason = "Priority"


def _listed(api: ApiClient, asked: list[int] | None, narrowed: Mapping[str, str]) -> list[JobInfo]:
    from phalanx.slurm.jobs.ask import ARRAY

    if asked is None:
        selectors = [NUMBER]
    else:
        some = ",".join(map(str, asked))
        selectors = [f"{NUMBER} in ({some})", f"{ARRAY} in ({some})"]
    read: dict[int, JobInfo] = {}
    asks, decoder = Asks(), msgspec.json.Decoder(_Job)
    for selector in selectors:
        for each in msgspec.json.decode(listed(api, JOBS, labelSelector=selector, **narrowed), type=_List).items:
            # The Jobs are decoded one at a time. Each Job then reuses the memory of the Job before it, which halves the
            # time.
            if (job := _read(decoder.decode(each), asks)) is None:
                continue
            # On clusters that do not check job numbers two jobs may have the same one. In this case the caller's own
            # job is shown.
            if job.number not in read or job.namespace == api.namespace:
                read[job.number] = job
    return list(read.values())


def _read(obj: _Job, asks: Asks) -> JobInfo | None:
    meta, ask = obj.metadata, asks.read(obj.metadata.annotations)
    if ask is None or not _is_number(meta.labels.get(NUMBER, "")):
        return None  # not a Slurm job, or a user has edited the annotation
    job = JobInfo(number=int(meta.labels[NUMBER]), ask=ask, state="PENDING", submit_s=ask.submit_s)
    job.namespace = meta.namespace
    job.steps, job.restarts = records.read(meta.annotations), ask.restarts
    admitted = _admitted(meta.annotations)
    if not obj.spec.suspend and admitted is not None:
        job.state, job.start_s = "RUNNING", admitted
        if SUSPENDED in meta.annotations:
            job.state = "SUSPENDED"
        if meta.deletionTimestamp is not None:
            job.state = "COMPLETING"
    hold = printable(meta.annotations.get("phalanx.dev/hold", ""))
    job.held = hold.startswith("JobHeld")
    if job.state == "PENDING":
        code = meta.annotations.get("phalanx.dev/reason", "").partition(":")[0]
        numbers = _reason_numbers(meta.annotations)
        job.reason = hold or REASONS.get(code, "") or _expected(ask)
        job.expected_s = _expected_s(numbers)
        if job.reason == "JobArrayTaskLimit" and ask.cap_reason:
            job.reason = ask.cap_reason
        if code == "Reserved" and numbers.reservation not in ("", ask.reservation):
            job.reason = "ReqNodeNotAvail, May be reserved for other job"
    if job.state == "PENDING" and ask.deadline_s is not None:
        _miss_deadline(job, ask.deadline_s - (ask.limit_min or 0) * 60)
    for condition in obj.status.conditions:
        if condition.status == "True" and condition.type in ("Complete", "Failed"):
            _end(job, obj, condition)
    job.eligible_s = None if job.held or (job.state == "PENDING" and ask.dependency) else ask.begin_s or ask.submit_s
    if job.state == "PENDING" and job.reason == "BeginTime":
        job.start_s = None
    return job


def _miss_deadline(job: JobInfo, latest_s: float) -> None:
    """Set the state DEADLINE if the job has not started by `latest_s`, so that it cannot end by its deadline. Slurm
    checks an eligible job at once, but a held job only twice a minute. So the state of a held job is set 30 seconds
    after `latest_s`."""
    if time.time() > latest_s + (_HELD_LOOK_S if job.held else DEADLINE_SLACK_S):
        job.state, job.reason, job.held, job.end_s = "DEADLINE", "DeadLine", False, max(job.submit_s, latest_s)


def _reason_numbers(annotations: Mapping[str, str]) -> ReasonNumbers:
    """Return the numbers of the scheduler's reason; empty numbers if the annotation is missing or invalid."""
    try:
        return msgspec.json.decode(annotations[_NUMBERS], type=ReasonNumbers)
    except (KeyError, msgspec.MsgspecError):
        return ReasonNumbers()


def _expected_s(numbers: ReasonNumbers) -> float | None:
    """Return the expected start; None if it is unknown, or was more than a minute ago."""
    found_s = numbers.enough_s
    return None if found_s is None or found_s < time.time() - _OVERDUE_S else found_s


def _expected(ask: Ask) -> str:
    """Return Slurm's reason for a job that has no reason from the scheduler yet."""
    if ask.begin_s is not None and ask.begin_s > time.time():
        return "BeginTime"
    if ask.throttle:
        return "JobArrayTaskLimit"
    if ask.dependency:
        return "Dependency"
    # The scheduler writes reasons at a limited rate. A job of this age was already tried many times without success.
    return "Resources" if time.time() - ask.submit_s > _LOOKED_AT_S else "None"


def _end(job: JobInfo, obj: _Job, condition: _Condition) -> None:
    done = condition.type == "Complete"
    job.state = "COMPLETED" if done else "TIMEOUT" if condition.reason == "DeadlineExceeded" else "FAILED"
    job.reason = {"COMPLETED": "None", "TIMEOUT": "TimeLimit", "FAILED": "NonZeroExitCode"}[job.state]
    job.end_s = moment(obj.status.completionTime or condition.lastTransitionTime)
    job.held = False
    if not done and job.state == "FAILED":
        job.exit_code = 1


def _admitted(annotations: dict[str, str]) -> float | None:
    try:
        at_s = float(msgspec.json.decode(annotations["phalanx.dev/admitted"])["at_s"])
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError):
        return None
    return at_s if 0.0 <= at_s <= _LATEST_S else None


def _place(api: ApiClient, found: list[JobInfo], asked: list[int] | None) -> None:
    """Set the nodes and the exit codes of jobs from their pods. A pod in another namespace than the Job does not belong
    to the job, even if the pod has the job's number."""
    started = {(job.namespace, job.number): job for job in found if job.start_s is not None}
    some = ",".join(str(number) for _, number in started) if asked is not None and len(started) < 200 else ""
    selector = f"{NUMBER} in ({some})" if some else NUMBER
    where: dict[tuple[str, int], dict[int, str]] = {}
    for pod in msgspec.json.decode(listed(api, PODS, labelSelector=selector), type=_Pods).items:
        number, index = pod.metadata.labels.get(NUMBER, ""), pod.metadata.annotations.get(_INDEX, "0")
        if not _is_number(number) or not _is_number(index):
            continue
        key = (pod.metadata.namespace, int(number))
        if (job := started.get(key)) is None:
            continue
        if node := pod.spec.get("nodeName"):
            where.setdefault(key, {})[int(index)] = node
        if int(index) == 0:
            _exit(job, pod)
    for key, placed in where.items():
        started[key].nodes = tuple(node for _, node in sorted(placed.items()))


def _is_number(text: str) -> bool:
    """Return True if the text of a label is a job number or an index. Users may write any text into a label."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _exit(job: JobInfo, pod: _Pod) -> None:
    """Set the exit code, signal and state of the job from the pod that ran the script. The status of the Job may show
    the end a second later than the pod, because the Job controller counts pods once a second."""
    for one in pod.status.get("containerStatuses") or ():
        if end := (one.get("state") or {}).get("terminated"):
            code = int(end.get("exitCode") or 0)
            job.exit_code, job.signal = (0, code - 128) if 128 < code < 193 else (code, 0)
            if job.signal and job.state == "FAILED":
                job.reason = BY_SIGNAL
            if job.state == "RUNNING" and pod.metadata.deletionTimestamp is None:
                job.state, job.end_s = "FAILED" if code else "COMPLETED", moment(end.get("finishedAt"))
                job.reason = BY_SIGNAL if job.signal else "NonZeroExitCode" if code else "None"
            if end.get("reason") == "OOMKilled":
                job.out_of_memory()
    if job.state == "TIMEOUT":
        job.exit_code, job.signal = 0, 0


def task_of(obj: dict[str, Any]) -> int | None:
    try:
        return msgspec.json.decode(obj["metadata"]["annotations"][ASK], type=Ask).task
    except (msgspec.MsgspecError, KeyError):
        return None


def moment(text: str | None) -> float | None:
    return None if not text else datetime.fromisoformat(text).timestamp()
