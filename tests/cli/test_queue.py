"""`phalanx queue`: specs from options, and the effects of a change on jobs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, get_args, get_type_hints

import pytest

from phalanx.cli.commands.administer.queue import QueueOptions
from phalanx.cli.study.whatif.effects import effects, lines, record
from phalanx.cli.study.whatif.outlook import Outlook
from phalanx.cli.submission.queue_spec import differences, require_valid
from phalanx.errors import PhalanxError
from phalanx.model.queue import QueueOrder, QueueState, WithinQueue
from phalanx.simulator.run.forward import Course, Eviction, Future

SPEC: dict[str, Any] = {
    "gang": True,
    "parent": "lab",
    "quotas": [{"guaranteed": {"cpu": "4"}, "limit": {"cpu": 8}}, {"flavor": "spot", "limit": {"cpu": "2"}}],
}


def test_only_what_is_given_changes() -> None:
    after = QueueOptions(limit=("cpu=6,memory=1Ti",), weight=2.0, strict=False).applied(SPEC)
    assert differences(SPEC, after) == [
        "quotas[all nodes].limit.cpu: 8 -> 6",
        "quotas[all nodes].limit.memory: not set -> 1Ti",
        "strict: not set -> false",
        "weight: not set -> 2.0",
    ]
    assert SPEC["quotas"][0]["limit"] == {"cpu": 8}
    assert QueueOptions().applied(SPEC) == SPEC


def test_an_empty_amount_or_parent_takes_the_setting_away() -> None:
    after = QueueOptions(parent="", limit=("cpu=",), flavor="spot").applied(SPEC)
    assert differences(SPEC, after) == ["parent: lab -> not set", "quotas[spot].limit.cpu: 2 -> not set"]
    assert len(after["quotas"]) == 1


def test_settings_of_preemption_stand_beside_those_that_are_there() -> None:
    after = QueueOptions(within="lower").applied({"preemption": {"reclaim": "any"}})
    assert after == {"preemption": {"reclaim": "any", "within": "lower"}}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (QueueOptions(limit=("cpu",)), "--limit 'cpu' is not RESOURCE=AMOUNT"),
        (QueueOptions(limit=("cpu=2",)), "the limit is below what is guaranteed (guaranteed is 4)"),
        (QueueOptions(guaranteed=("memory=many",)), "spec.quotas[0].guaranteed.memory"),
        (QueueOptions(parent="research"), "is the queue itself"),
    ],
)
def test_what_no_queue_can_have_is_refused(options: QueueOptions, complaint: str) -> None:
    with pytest.raises(PhalanxError) as error:
        require_valid("research", options.applied(SPEC))
    assert complaint in str(error.value)


def course(job: str, wait_s: float | None, *evictions: Eviction, ran: bool = False) -> Course:
    return Course(
        job=job,
        queue="lab",
        ran=ran,
        waits_since_s=0.0 if wait_s is None else None,
        waited_s=wait_s or 0.0,
        evictions=list(evictions),
    )


def test_effects_are_the_differences_of_two_futures() -> None:
    gone = Eviction(at_s=30.0, by="victor", ran_s=600.0)
    before = [course("runs", 0.0, ran=True), course("victor", 900.0), course("same", 5.0), course("lost", 50.0)]
    after = [course("runs", 900.0, gone, ran=True), course("victor", 30.0), course("same", 5.4), course("lost", None)]
    before, after = [*before, course("late", 10.0)], [*after, course("late", 70.0)]
    futures = [Future(courses={one.job: one for one in each}, until_s=1e6, unlimited=()) for each in (before, after)]
    outlook = Outlook(before=futures[0], after=futures[1], now_s=0.0, horizon_s=86400.0, run_s=3600.0)
    assert list(lines(effects(outlook), outlook)) == [
        "stopped: 1 job",
        "  runs, in queue lab, for victor in 30s, having run 10m",
        "earlier: 1 job",
        "  victor: -14m30s",
        "later: 1 job",
        "  late: +1m",
        "not within 1d: 1 job",
        "  lost.",
    ]
    assert record(effects(outlook))["stopped"] == [{"job": "runs", "queue": "lab", "by": "victor", "ran_s": 600.0}]


@pytest.mark.parametrize(("field", "known"), [("order", QueueOrder), ("state", QueueState), ("within", WithinQueue)])
def test_every_choice_of_the_schema_is_one_of_the_command(field: str, known: type[StrEnum]) -> None:
    said = get_args(get_args(get_type_hints(QueueOptions)[field])[0])
    assert set(said) == {str(one) for one in known}
