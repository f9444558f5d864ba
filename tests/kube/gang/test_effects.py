"""`kube/gang/effects.py`: the interface between a gang's life cycle and the API."""

from __future__ import annotations

import pytest

from phalanx.kube.gang.effects import WriteOutcome
from phalanx.model.job import Slot
from tests.kube.gang.recorded_effects import a_pod
from tests.kube.gang.test_seating import Scene


@pytest.mark.parametrize("answer", list(WriteOutcome))
def test_an_answer_for_a_pod_that_is_gone_changes_no_seat(answer: WriteOutcome) -> None:
    scene = Scene(1, ["n1"])
    pod = a_pod("a", job="j")
    scene.see(pod)
    scene.lose(pod)
    scene.effects.answer("bind", answer)
    assert not scene.start.seats[Slot(0, 0)].bound
    assert scene.start.seats[Slot(0, 0)].node == "n1"
