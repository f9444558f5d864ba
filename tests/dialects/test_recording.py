"""What is written of an event is read back as the same event, whatever its texts and numbers."""

from __future__ import annotations

import json
from math import inf

import pytest

from phalanx.dialects.recording import read, written
from phalanx.model.event import QueueSeen, Submitted, UsageTold
from phalanx.model.job import Job
from phalanx.model.queue import Queue

EVENTS = [
    Submitted(Job(id="inf", queue="inf", user="-inf", group="float", roles=())),
    QueueSeen(Queue(name="inf", weight=inf)),
    UsageTold(queue="q", user="inf", usage=inf, at_s=-inf),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_infinite_numbers_and_texts_that_look_like_them_come_back(event: Submitted | QueueSeen | UsageTold) -> None:
    text = json.dumps(written(event), allow_nan=False)
    assert read(json.loads(text)) == event
