"""A job as people see it: the value that rows and pages are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phalanx.cli.cluster.jobs.ending import in_brief
from phalanx.cli.cluster.jobs.finding import kind_text
from phalanx.cli.terminal.output import amounts_text, counted
from phalanx.cli.views.job.expected_start import said, start_record
from phalanx.cli.views.job.job_row import JobRow
from phalanx.client.kind import JOBS
from phalanx.client.moment import write_moment
from phalanx.dialects.frame.peer_reasons import words
from phalanx.model.job import Role
from phalanx.model.reason import Reason, StartForecast

_NODES_SHOWN = 3
_GPU = "nvidia.com/gpu"
WAITS = ("queued", "promised")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """`state`: queued, promised (nominated; its victims terminate, or an autoscaler has promised its nodes), starting,
    running, stuck (the job has started, and one of its pods cannot start), stopping (the job is being preempted),
    complete or failed. `placed`: how many of the `wanted` pods have a node. `minimum`: the number of pods that must
    start together; None if that is all pods, or if the job has groups. `since_s`: when the job entered this state, in
    seconds since the epoch. `nodes`: node -> number of its pods there. `soon`: the next cycle starts the job.
    `preempted`: how often the whole job was preempted. `preempted_by`: the preemptor, while the job waits after a
    preemption. `limit_s`: the time limit of each run; None if there is no limit or it is unknown. `ending`: no pod of
    the job runs or will run, and its end is not reported yet. `fixed`: the job starts with as many pods as fit, and
    does not grow. `kind`: the kind of the object that the user created. `made`: the name of that object, if the
    scheduler knows the job by another object. `user`: the submitter. `array`: the name of the array that the task
    belongs to. `cap`: how many tasks of the array may run at a time; 0: all. `cluster`: the other cluster that runs the
    job. `clusters`: the facts about each cluster for a waiting job, or why the cluster of a running job was chosen."""

    id: str
    queue: str
    state: str
    wanted: int
    placed: int
    since_s: float
    submitted_s: float
    priority: int
    nodes: dict[str, int]
    reason: Reason | None
    message: str  # how the job failed, or why it is stuck
    soon: bool
    roles: tuple[Role, ...]
    preempted: int = 0
    preempted_by: str = ""
    limit_s: float | None = None
    ending: bool = False
    fixed: bool = False
    kind: str = kind_text(JOBS)
    made: str = ""
    user: str = ""
    array: str = ""
    cap: int = 0
    cluster: str = ""
    clusters: tuple[str, ...] = ()
    minimum: int | None = None

    @property
    def namespace(self) -> str:
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        return self.made or self.id.partition("/")[2]

    @property
    def task(self) -> int | None:
        """Return the number of the task within its array; None for other jobs."""
        number = self.name.removeprefix(f"{self.array}-") if self.array else ""
        return int(number) if number.isascii() and number.isdigit() else None

    @property
    def gpus(self) -> int:
        """Return the GPUs that all its pods request."""
        asked = ((role.count, dict(role.shape.requests)) for role in self.roles)
        return sum(count * requests.get(_GPU, 0) for count, requests in asked)

    @property
    def title(self) -> str:
        """Return NAMESPACE/NAME of the object that the user made."""
        return f"{self.namespace}/{self.name}"

    def where(self) -> str:
        """Return the reason for which the job waits; otherwise its nodes."""
        if self.reason is not None:
            return self.reason.text
        if self.ending:
            return "its pods have ended; how, its Job says in a moment"
        if self.soon:
            return "there is room; it starts in a moment"
        if self.state == "queued" and not (self.message or self.nodes):
            return "the scheduler decides on it in a moment"
        return in_brief(self.message) or _places(self.nodes)

    def row(self, start: StartForecast | None, now_s: float, *, recorded: bool = False) -> JobRow:
        """Return the row of the job. `start`: its expected start, if that is known. `recorded`: with all details."""
        record = {**self.record(), "expected_start": start_record(start)} if recorded else {}
        return JobRow(
            id=self.id,
            name=self.name,
            kind=self.kind,
            user=self.user,
            queue=self.queue,
            state=self.state,
            wanted=self.wanted,
            placed=self.placed,
            minimum=self.minimum,
            since_s=self.since_s,
            submitted_s=self.submitted_s,
            limit_s=self.limit_s,
            priority=self.priority,
            gpus=self.gpus,
            each="; ".join(dict.fromkeys(amounts_text(role.shape.requests) for role in self.roles)),
            where=self.where(),
            expected=said(start, now_s) if start is not None else "",
            array=self.array,
            task=self.task,
            cap=self.cap,
            cluster=self.cluster,
            record=record,
        )

    def record(self) -> dict[str, Any]:
        """Return the record of the job for `--json`; docs/guide/command-line.md describes its fields."""
        reason = self.reason
        return {
            "job": self.id,
            "namespace": self.namespace,
            "name": self.name,
            "kind": self.kind,
            "user": self.user,
            "array": self.array,
            "queue": self.queue,
            "state": self.state,
            "pods": {"wanted": self.wanted, "placed": self.placed, "minimum": self.minimum},
            "submitted": write_moment(self.submitted_s),
            "since": write_moment(self.since_s),
            "priority": self.priority,
            "time_limit_s": self.limit_s,
            "nodes": self.nodes,
            "cluster": self.cluster,
            "clusters": list(self.clusters),
            "reason": reason
            and {
                "code": reason.code,
                "text": reason.text,
                "numbers": dict(reason.numbers),
                "peers": words(reason.code, reason.numbers),
            },
            "message": self.message,
            "preempted": {"times": self.preempted, "by": self.preempted_by},
            "roles": [
                {"name": role.name, "count": role.count, "minimum": role.minimum, "each": dict(role.shape.requests)}
                for role in self.roles
            ],
        }


def _places(nodes: dict[str, int]) -> str:
    """Return the nodes and numbers of pods as text: `a x4, b, c and 7 more nodes`."""
    shown = [f"{node} x{pods}" if pods > 1 else node for node, pods in sorted(nodes.items())[:_NODES_SHOWN]]
    more = len(nodes) - len(shown)
    return ", ".join(shown) + (f" and {counted(more, 'more node')}" if more else "")
