"""The CronJob controller: create a Job whenever the schedule is due, and delete old finished Jobs.

The name of a Job is derived from its due time, so that no Job is created twice. If the controller has missed due times,
it creates a Job only for the latest of them, unless `startingDeadlineSeconds` has passed. Without `timeZone` the
machine's time zone is used. `CronKind` defines the kind of the created jobs, and functions that return whether such a
job has ended. Source: k8s.io/kubernetes/pkg/controller/cronjob.

`schedule` reads a cron schedule: five fields (crontab(5)), a name such as `@hourly`, or `@every 1h30m`. If both the day
of the month and the day of the week are restricted, a day that matches one of them is due. Source: the library of
Kubernetes, robfig/cron (`0` to `6` and names for days of the week, `?` as `*`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import CRON_JOBS, JOBS, Kind
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.job.view import is_finished
from phalanx.embedded.controllers.runtime.pod_state import (
    condition,
    controller_of,
    is_deleting,
    owner_reference,
    seconds,
    uid_of,
)
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_DURATION = re.compile(r"(\d+)([smh])")
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
# The maximum number of days that are searched for a due time. It is nearly always large enough to find a 29 February on
# a given day of the week.
_MOST_DAYS = 366 * 8

Next = Callable[[datetime], datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def includes(self, day: datetime) -> bool:
        by_day, by_weekday = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        either = by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday
        return day.month in self.months and either

    def after(self, moment: datetime) -> datetime | None:
        """Return the first due time after `moment`, in the time zone of `moment`; None if none was found for years."""
        start = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        for number in range(_MOST_DAYS):
            day = start + timedelta(days=number)
            if not self.includes(day):
                continue
            for hour in self.hours:
                for minute in self.minutes:
                    due = day.replace(hour=hour, minute=minute)
                    if due >= start:
                        return due
        return None


def schedule(text: str) -> Next:
    """Return a function that returns the next due time after a given moment. Raises ValueError for an invalid
    schedule."""
    if text.startswith("@every "):
        every = timedelta(seconds=sum(int(n) * _UNITS_S[unit] for n, unit in _DURATION.findall(text)))
        if not every:
            raise ValueError(f"{text!r} is not a duration")
        return lambda moment: moment + every
    words = _MACROS.get(text, text).lower().split()
    if len(words) != len(_BOUNDS):
        raise ValueError(f"{text!r} does not have five fields")
    names: tuple[tuple[str, ...], ...] = ((), (), (), _MONTHS, _DAYS)
    minutes, hours, days, months, weekdays = (
        _field(word, low, high, known) for word, (low, high), known in zip(words, _BOUNDS, names, strict=True)
    )
    return _Fields(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=weekdays,
        any_day=words[2][0] in "*?",
        any_weekday=words[4][0] in "*?",
    ).after


def _field(word: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, slash, step = part.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        else:
            begin, dash, end = span.partition("-")
            first = _number(begin, low, names)
            last = _number(end, low, names) if dash else high if slash else first
        stride = int(step) if slash else 1
        if not (low <= first <= last <= high and stride > 0):
            raise ValueError(f"{part!r} is not within {low} to {high}")
        found.update(range(first, last + 1, stride))
    return frozenset(found)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(text) + low if text in names else int(text)


SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MOST_MISSED = 10_000  # the maximum number of due times that are examined one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class CronKind:
    """The kinds that the controller works with: from each object of the kind `crons`, it creates objects of the kind
    `jobs`. `scheduled_at`: the annotation with a job's due time. `ended_well`: a function that returns True if a job
    has succeeded, False if it has failed, and None if it has not ended. `completed_at`: a function that returns the
    time of a job's success as a metav1.Time; "" if it did not succeed."""

    crons: Kind
    jobs: Kind
    component: str
    scheduled_at: str
    ended_well: Callable[[Object], bool | None]
    completed_at: Callable[[Object], str]


def _ended_well(job: Object) -> bool | None:
    return condition(job, "Complete") is not None if is_finished(job) else None


def _completed_at(job: Object) -> str:
    return str(job["status"].get("completionTime", "")) if condition(job, "Complete") else ""


BATCH = CronKind(
    crons=CRON_JOBS,
    jobs=JOBS,
    component="cronjob-controller",
    scheduled_at=SCHEDULED_AT,
    ended_well=_ended_well,
    completed_at=_completed_at,
)


class CronJobController(Reconciler):
    def __init__(self, context: ControllerContext, kind: CronKind = BATCH) -> None:
        self._kind, self.kind, self.component, self.owns = kind, kind.crons, kind.component, (kind.jobs,)
        super().__init__(context)
        self._jobs = self._calls.cache(kind.jobs)

    async def reconcile(self, cron: Object) -> None:
        space = f"{cron['metadata']['namespace']}/"
        own = [job for key, job in self._jobs.objects.items() if key.startswith(space) and _is_of(job, cron)]
        await self._clear(cron, own)
        active = [job for job in own if self._kind.ended_well(job) is None]
        status = self._status(cron, own, active)
        try:
            due, upcoming = _due(cron, self._clock())
        except (ValueError, OSError, KeyError) as error:
            self.tell(cron, "Warning", "UnparseableSchedule", str(error))
            return
        if due is not None and not cron["spec"].get("suspend"):
            status = await self._make(cron, due, active, status)
        await self.write_status(cron, status)
        if upcoming is not None and not cron["spec"].get("suspend"):
            self.look_after(cron, max(0.0, upcoming - self._clock()))

    async def _make(
        self, cron: Object, due_s: float, active: list[Object], status: dict[str, Any]
    ) -> dict[str, object]:
        """Create the Job for a due time, if the concurrency policy allows it. Return the resulting status of the
        CronJob."""
        policy = cron["spec"].get("concurrencyPolicy")
        running = [job for job in active if not is_deleting(job)]
        if policy == "Forbid" and running:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.tell(cron, "Normal", "JobAlreadyActive", text)
            return status
        if policy == "Replace":
            for job in running:
                await self._calls.remove(self._kind.jobs, job)
        job = self._job(cron, due_s)
        try:
            made = await self._calls.create(self._kind.jobs, job, job["metadata"]["namespace"])
        except ApiRefusal as refusal:
            if refusal.code != 409:
                self.tell(cron, "Warning", "FailedCreate", f"Error creating job: {refusal}")
                raise
        else:
            self.tell(cron, "Normal", "SuccessfulCreate", f"Created job {job['metadata']['name']}")
            left = [] if policy == "Replace" else status.get("active") or []
            status = {**status, "active": [*left, self._reference(made)]}
        return {**status, "lastScheduleTime": write_moment(due_s)}

    async def _clear(self, cron: Object, own: list[Object]) -> None:
        """Delete the oldest finished Jobs that exceed the limits of the history."""
        spec = cron["spec"]
        for well, limit in ((True, "successfulJobsHistoryLimit"), (False, "failedJobsHistoryLimit")):
            ended = [job for job in own if self._kind.ended_well(job) is well and not is_deleting(job)]
            ended.sort(key=lambda job: str(job["metadata"]["creationTimestamp"]))
            for job in ended[: max(0, len(ended) - int(spec.get(limit, 1)))]:
                await self._calls.remove(self._kind.jobs, job)

    def _job(self, cron: Object, due_s: float) -> Object:
        meta, template = cron["metadata"], cron["spec"]["jobTemplate"]
        said = template.get("metadata") or {}
        return {
            "apiVersion": self._kind.jobs.api_version,
            "kind": self._kind.jobs.name,
            "metadata": {
                "name": f"{meta['name']}-{int(due_s) // 60}",
                "namespace": meta["namespace"],
                "labels": dict(said.get("labels") or {}),
                "annotations": {**(said.get("annotations") or {}), self._kind.scheduled_at: write_moment(due_s)},
                "ownerReferences": [owner_reference(self._kind.crons, cron)],
            },
            "spec": template.get("spec") or {},  # the server refuses an empty spec
        }

    def _reference(self, job: Object) -> Object:
        meta = job["metadata"]
        return {
            "kind": self._kind.jobs.name,
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "apiVersion": self._kind.jobs.api_version,
            "resourceVersion": meta["resourceVersion"],
        }

    def _status(self, cron: Object, own: list[Object], active: list[Object]) -> dict[str, object]:
        status = {key: value for key, value in (cron.get("status") or {}).items() if key != "active"}
        if active:
            known = {one["uid"]: one for one in (cron.get("status") or {}).get("active") or ()}
            status["active"] = [known.get(uid_of(job)) or self._reference(job) for job in active]
        ended = [self._kind.completed_at(job) for job in own]
        if newest := max([*ended, status.get("lastSuccessfulTime") or ""]):
            status["lastSuccessfulTime"] = newest
        return status


def _is_of(job: Object, cron: Object) -> bool:
    owner = controller_of(job)
    return owner is not None and owner["uid"] == uid_of(cron)


def _zone(cron: Object) -> tzinfo | None:
    name = cron["spec"].get("timeZone")
    return ZoneInfo(name) if name else datetime.now(UTC).astimezone().tzinfo


def _due(cron: Object, now_s: float) -> tuple[float | None, float | None]:
    """Return the latest due time for which no Job was created yet (None if there is none), and the next due time after
    now. Raises ValueError, KeyError."""
    spec, after = cron["spec"], schedule(cron["spec"]["schedule"])
    last = (cron.get("status") or {}).get("lastScheduleTime") or cron["metadata"]["creationTimestamp"]
    since_s = seconds(last)
    deadline_s = spec.get("startingDeadlineSeconds")
    if deadline_s is not None:
        since_s = max(since_s, now_s - float(deadline_s))
    return _latest(after, since_s, now_s, _zone(cron))


def _latest(after: Next, since_s: float, now_s: float, zone: tzinfo | None) -> tuple[float | None, float | None]:
    moment, latest = datetime.fromtimestamp(since_s, zone), None
    for number in range(_MOST_MISSED):
        upcoming = after(moment)
        if upcoming is None or upcoming.timestamp() > now_s:
            return latest, upcoming.timestamp() if upcoming is not None else None
        latest, moment = upcoming.timestamp(), upcoming
        if number == _MOST_MISSED - 2:  # The controller was down for very long. Count only due times of the last hour.
            moment = datetime.fromtimestamp(now_s - 3600, zone)
    return latest, None
