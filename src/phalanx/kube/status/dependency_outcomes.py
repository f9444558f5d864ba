"""Save the outcomes of dependencies on the objects of the dependent jobs. (A *dependent* is a job that may start only
after another job, its *dependency*, has started or ended.)

The dependency may be deleted before its dependent starts: by its user, or by the cluster an hour after its end. A
scheduler process that starts later would not know the outcome of the dependency. So the scheduler writes the outcome on
the dependent's object, in `phalanx.dev/after-outcomes` (`{"default/prepare": "succeeded"}`), but only if the dependent
still waits after the next cycle. The next scheduler process reads the outcome from the annotation. If the dependent
only requires the start of its dependency, the outcome is `started`. If a job with the dependency's name still exists,
the present state of this job takes precedence over the annotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import msgspec

from phalanx.kube.gang.effects import Member
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.stages import Stage
from phalanx.kube.read.labels import AFTER_OUTCOMES, read_json
from phalanx.model.event import Adopted, Event, Finished, OutcomeTold, Started, Submitted
from phalanx.model.job import DependencyType, Job, Outcome

STARTED = "started"
WORDS = frozenset(map(str, Outcome))
KEPT = 10_000  # outcomes that are kept even if no waiting job needs them


class DependencyOutcomes:
    """The outcomes of dependencies. `due`: the waiting jobs that depend on a job whose state has changed. `gangs`: all
    gangs, by id. `annotate`: a function that writes an annotation (key, text) on an object."""

    def __init__(self, gangs: Mapping[str, GangLifecycle], annotate: Callable[[Member, str, str], None]) -> None:
        self._gangs, self._annotate = gangs, annotate
        self._outcomes: dict[str, Outcome] = {}
        self._needs: dict[str, dict[str, DependencyType]] = {}  # pending job -> the jobs that it depends on
        self._begun: dict[str, set[str]] = {}  # pending job -> its dependencies whose start is recorded
        self._dependents: dict[str, dict[str, None]] = {}  # dependency -> the pending jobs that depend on it
        self.due: dict[str, None] = {}

    def hear(self, events: Sequence[Event]) -> list[Event]:
        """Store the outcomes of jobs in these events, before the core gets the events. Return the events, and add
        events about outcomes that are known only from annotations."""
        found: list[Event] = []
        for event in events:
            match event:
                case Submitted(job):
                    self._outcomes.pop(job.id, None)
                    found += (Submitted(self._describe(job)), *self._noted(job)) if job.after else (event,)
                    continue
                case Adopted(job):
                    self._outcomes.pop(job.id, None)
                    self._forget(job.id)
                    self.due.update(self._dependents.get(job.id, {}))
                case Started(name):
                    self.due.update(self._dependents.get(name, {}))
                case Finished(name, outcome) | OutcomeTold(name, outcome):
                    self._forget(name)
                    self._begun.pop(name, None)
                    self._end(name, outcome)
            found.append(event)
        return found

    def write(self) -> None:
        """Write missing outcomes of dependencies on the objects of the pending jobs that depend on them. The caller
        calls this method after a decision of the core, so that jobs that this decision starts get no annotation."""
        due, self.due = self.due, {}
        for name in due:
            gang = self._gangs.get(name)
            if gang is None or not gang.waits or (member := _member(gang)) is None:
                continue
            before, needs = _read(member), self._needs.get(name, {})
            known = {
                need: STARTED
                for need, kind in needs.items()
                if kind is DependencyType.START and self._has_started(need)
            }
            known |= {need: str(self._outcomes[need]) for need in needs if need in self._outcomes}
            if (now := {**before, **known}) != before:
                self._annotate(member, AFTER_OUTCOMES, msgspec.json.encode(now).decode())

    # --- private ---------------------------------------------------------------------------------------------------

    def _describe(self, job: Job) -> Job:
        """Return the job in the form that the core gets. A dependency that only requires a start is left out if the
        job's annotation records this start."""
        self._forget(job.id)
        needs = self._needs[job.id] = {each.job: each.after for each in job.after}
        for need in needs:
            self._dependents.setdefault(need, {})[job.id] = None
        if any(need in self._outcomes or self._has_started(need) for need in needs):
            self.due[job.id] = None
        gang = self._gangs.get(job.id)
        if job.id not in self._begun and gang is not None and (member := _member(gang)) is not None:
            self._begun[job.id] = {name for name, said in _read(member).items() if said == STARTED}
        begun = self._begun.get(job.id, set())
        left = tuple(one for one in job.after if one.after is not DependencyType.START or one.job not in begun)
        return replace(job, after=() if job.requires_any and len(left) < len(job.after) else left)

    def _has_started(self, name: str) -> bool:
        """Return whether the gang is running or is leaving its nodes."""
        gang = self._gangs.get(name)
        return gang is not None and gang.state.stage in (Stage.RUNNING, Stage.LEAVING)

    def _noted(self, job: Job) -> Iterator[Event]:
        """Yield events about outcomes of dependencies that are known only from the annotation on the job's object."""
        gang = self._gangs.get(job.id)
        member = _member(gang) if gang is not None else None
        for name, said in _read(member).items() if member is not None else ():
            other = self._gangs.get(name)
            unknown = name not in self._outcomes and (other is None or other.objects.over)
            if said != STARTED and unknown and name in self._needs[job.id]:
                outcome = self._outcomes[name] = Outcome(said)
                yield OutcomeTold(name, outcome)

    def _forget(self, name: str) -> None:
        for need in self._needs.pop(name, {}):
            dependents = self._dependents[need]
            del dependents[name]
            if not dependents:
                del self._dependents[need]

    def _end(self, name: str, outcome: Outcome) -> None:
        self._outcomes.pop(name, None)
        self._outcomes[name] = outcome
        self.due.update(self._dependents.get(name, {}))
        if len(self._outcomes) > 2 * KEPT:
            latest = dict(islice(self._outcomes.items(), len(self._outcomes) - KEPT, None))
            self._outcomes = {
                one: end for one, end in self._outcomes.items() if one in self._dependents or one in latest
            }


def _member(gang: GangLifecycle) -> Member | None:
    """Return the object of the gang on which the outcomes of its dependencies are written."""
    members = gang.objects.waiting().everyone
    return next((one for one in members if AFTER_OUTCOMES in one.options), members[0] if members else None)


def _read(member: Member) -> dict[str, str]:
    """Return the outcomes in the annotation of an object; empty if the annotation is malformed."""
    try:
        said = read_json(member.options.get(AFTER_OUTCOMES, "{}"), dict[str, str])
    except ValueError:
        return {}
    return {name: text for name, text in said.items() if text == STARTED or text in WORDS}
