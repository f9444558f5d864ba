"""A recorded event is read back as the same event, whatever its texts and numbers."""

from __future__ import annotations

import json
from math import inf
from typing import get_args

import pytest

from phalanx.dialects.schema.recording import Unreadable, read, written
from phalanx.model.event import QueueSeen, Submitted, UsageTold
from phalanx.model.job import Job, Placement, Slot
from phalanx.model.plan import Action, Nominate, Place, Preempt, ReleaseNodes, RequestNodes, Shrink, Start, Wait
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode

EVENTS = [
    Submitted(Job(id="inf", queue="inf", user="-inf", group="float", roles=())),
    QueueSeen(Queue(name="inf", weight=inf)),
    UsageTold(queue="q", user="inf", usage=inf, at_s=-inf),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_infinite_numbers_and_texts_that_look_like_them_come_back(event: Submitted | QueueSeen | UsageTold) -> None:
    text = json.dumps(written(event), allow_nan=False)
    assert read(json.loads(text)) == event


WHERE = (Placement(0, 0, "n1"), Placement(0, 1, "n2", ("gpu-0",)))
WHY = Reason(code=ReasonCode.NO_ROOM, text="no room")
ACTIONS: list[Action] = [
    Start("a", 1, WHERE, 7.5, ("spot",), 60.0),
    Place("a", WHERE),
    Wait("a", WHY),
    Preempt("a", 1, "b", WHY, 30.0),
    Shrink("a", (Slot(0, 1),), "b", WHY),
    Nominate("a", WHERE, (), inf),
    RequestNodes("a", "spot", ("spot-1", "spot-2"), 1.0, 61.0, 91.0),
    ReleaseNodes("", "spot", ("spot-1",), late=True),
]


def test_there_is_an_example_of_every_action() -> None:
    assert {type(action) for action in ACTIONS} == set(get_args(Action))


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: type(action).__name__)
def test_actions_come_back(action: Action) -> None:
    text = json.dumps(written(action), allow_nan=False)
    found = read(json.loads(text))
    assert type(found) is type(action)
    assert found == action


def test_what_an_older_version_did_not_write_has_its_default() -> None:
    assert read({"is": "Start", "job": "a", "attempt": 1, "placements": []}) == Start("a", 1, ())
    with pytest.raises(Unreadable, match="Start: Object missing required field `attempt`"):
        read({"is": "Start", "job": "a", "placements": []})
