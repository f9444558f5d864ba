"""Answer the question when a job would start in this cluster if it were submitted now. The manager of several clusters
sends such questions, and scripts can send them too.

    /apis/visibility.phalanx.dev/v1/namespaces/NAMESPACE/jobs/-/start?job=QUESTION

The question (`clusters.question`) is converted to Jobs, and the usual code reads these Jobs as a gang. The gang is
submitted to a copy of the cluster state. One simulation computes its start, with learned run times or time limits. If
more than `FORESEEN` jobs are live, only the first scheduling cycle is simulated, which shows whether the gang would
start now. RBAC controls the access: the verb `get` on `jobs/start`. The reason in the response names no other job.

Questions may take at most 1/`SPARE` of the time of the process. A question that comes too early gets the response 503.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import msgspec

from phalanx.cli.cluster.numbers.fetching import GROUP, VERSION
from phalanx.client.connection import Object
from phalanx.clusters.question import StartQuestion, answer_of, read_question
from phalanx.core.fold.fold import fold
from phalanx.dashboard.redaction import unnamed
from phalanx.kube.gang.spec.gang_spec import GangDefaults, gang_spec
from phalanx.kube.gang.spec.members import GangMembers
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.batch_job import read_job
from phalanx.model.event import Event, Submitted
from phalanx.model.job import Job, Phase
from phalanx.model.plan import Plan
from phalanx.model.reason import Reason
from phalanx.report.forecast import ForecastRun, drawn_run_times, up_to_limits
from phalanx.state.cluster import Cluster

FORESEEN = 200  # with more live jobs, only the first cycle is simulated
SPARE = 20
_NAME: Final = "-start"  # the name of the job in question; no object can have it


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The cluster state at the time `now_s`. `admission`, `defaults`: the settings for reading Jobs."""

    cluster: Cluster
    admission: AdmissionDefaults
    defaults: GangDefaults
    now_s: float


class StartAnswers:
    """Answers the questions that one process gets. `present`: a function that returns the present state; None until the
    state has been read."""

    def __init__(self, present: Callable[[], Present | None]) -> None:
        self._present = present
        self._until_s = 0.0  # on the monotonic clock; earlier questions get the response 503

    def answer(self, path: Sequence[str], query: Mapping[str, str]) -> Callable[[], Object] | None:
        """Return a function that computes the response to a request for `path` below the API group; any thread may call
        it. Return None if the path is not a question about a start."""
        match tuple(path):
            case (version, "namespaces", namespace, "jobs", "-", "start") if version == VERSION:
                return self._asked(namespace, query.get("job", ""))
            case _:
                return None

    def _asked(self, namespace: str, text: str) -> Callable[[], Object]:
        began_s = time.monotonic()
        present = self._present()
        if present is None or began_s < self._until_s:
            return lambda: _status(503, "ServiceUnavailable", "too many questions about starts. Try again later.")
        try:
            job = asked_job(read_question(text), namespace, present)
        except (msgspec.MsgspecError, ValueError) as error:
            said = f"the parameter job is not a question about a start: {error}"
            return lambda: _status(400, "BadRequest", said)
        cluster = present.cluster.copy()
        self._until_s = inf  # refuse all other questions until this one is answered

        def play() -> Object:
            try:
                return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "JobStart", **start_of(cluster, job, present.now_s)}
            finally:
                now_s = time.monotonic()
                self._until_s = now_s + (SPARE - 1) * (now_s - began_s)

        return play


def asked_job(asked: StartQuestion, namespace: str, present: Present) -> Job:
    """Return the job that a question describes, with the present time as its submission."""
    jobs = [read_job(_manifest(asked, namespace, number), present.admission) for number in range(len(asked.pods))]
    spec = gang_spec(GangMembers(id=f"{namespace}/{_NAME}", jobs=jobs, pods=()), present.defaults)
    return replace(spec.job, submitted_s=present.now_s)


def _manifest(asked: StartQuestion, namespace: str, number: int) -> dict[str, object]:
    pods = asked.pods[number]
    pod = {
        "schedulerName": "phalanx",
        "restartPolicy": "Never",
        "priority": asked.priority,
        "nodeSelector": pods.selector,
        "tolerations": pods.tolerations,
        "containers": [{"name": "main", "resources": {"requests": pods.requests}}],
    }
    limit = {"activeDeadlineSeconds": max(1, round(asked.limit_s))} if asked.limit_s else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"pods-{number + 1}" if len(asked.pods) > 1 else "pods",
            "namespace": namespace,
            "uid": f"{namespace}/{_NAME}{number}",
            "resourceVersion": "0",
            "labels": asked.options,
        },
        "spec": {
            "suspend": True,
            "parallelism": pods.count,
            "completions": pods.count,
            "template": {"metadata": {}, "spec": pod},
            **limit,
        },
    }


class StartPlay(ForecastRun):
    """A simulation that ends with the start of one job. `reason`: the reason why the job does not start in the first
    cycle; None if it starts in this cycle."""

    reason: Reason | None = None
    _cycles = 0

    def step(self, events: list[Event]) -> Plan:
        plan, self._cycles = super().step(events), self._cycles + 1
        if self._cycles == 1:
            [job] = self.asked
            record = self.book.jobs[job]
            waits = record.phase is Phase.QUEUED
            self.reason = (record.job.blocked or self.book.reason(job)) if waits else None
        return plan

    def go_on(self, plan: Plan) -> bool:
        """Return True if the simulation continues after this plan. If more than `FORESEEN` jobs are live, it ends after
        the first cycle."""
        return len(self.book.jobs) <= FORESEEN and super().go_on(plan)


def start_of(cluster: Cluster, job: Job, now_s: float) -> Object:
    """Return the response: the expected start of the job, and the reason why it does not start at once. `cluster`: a
    copy of the cluster state, which this function changes."""
    fold(cluster, (Submitted(job),))
    [run_time] = drawn_run_times(cluster, 1) if cluster.ends.run_times else [up_to_limits(cluster)]
    run = StartPlay(cluster, cluster.policy, now_s, [job.id], run_time)
    found = run.run()
    if job.id in found and found[job.id][0] <= now_s:
        return answer_of(0.0, "", "")
    start_s = found[job.id][0] if job.id in found else inf
    code, text = _unnamed(run.reason)
    return answer_of(start_s - now_s, code, text)


def _unnamed(reason: Reason | None) -> tuple[str, str]:
    if reason is None:
        return "Unknown", "it would wait"
    return str(reason.code), unnamed(str(reason.code), reason.text, reason.numbers)[0]


def _status(code: int, reason: str, message: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
