"""The condition of a connection to a worker, and its figures."""

from __future__ import annotations

import pytest

from phalanx.clusters.workers.state import FIGURES, ConnectionState, Why, WorkerCapacity, condition, read_figures

GOOD, BAD = ConnectionState(Why.ACTIVE), ConnectionState(Why.FAILED, "no answer", "Start it", 5.0)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (GOOD, "Connected"),
        (ConnectionState(Why.ACTIVE, "two kinds are missing"), "Connected; two kinds are missing"),
        (BAD, "no answer. Start it"),
        (ConnectionState(Why.BAD_CONFIG, "no kubeconfig"), "no kubeconfig"),
    ],
)
def test_messages(state: ConnectionState, message: str) -> None:
    assert state.message == message


def test_states_are_the_same_whenever_they_began() -> None:
    assert BAD.same(BAD._replace(since_s=9.0))
    assert not BAD.same(BAD._replace(mend="Wait"))
    assert not BAD.same(None)


def test_a_transition_keeps_its_time_while_the_status_stays() -> None:
    old = {"status": "False", "lastTransitionTime": "then"}
    assert condition(BAD, old, 3, 0.0)["lastTransitionTime"] == "then"
    assert condition(GOOD, old, 3, 0.0)["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    assert condition(BAD, {"status": "False"}, 3, 0.0)["lastTransitionTime"] == "1970-01-01T00:00:00Z"
    assert condition(GOOD, {}, 3, 0.0)["reason"] == "Active"


def test_figures_are_read_as_they_are_written_and_nonsense_is_none() -> None:
    figures = WorkerCapacity(nodes=3, has={"cpu": 4000}, lacks=("RayJob",))
    for text, found in (
        (figures.text(), figures),
        ("{", WorkerCapacity()),
        ('{"nodes": "x"}', WorkerCapacity()),
        (None, WorkerCapacity()),
    ):
        notes = {} if text is None else {FIGURES: text}
        assert read_figures({"metadata": {"annotations": notes}}) == found
    assert read_figures({"metadata": {}}) == WorkerCapacity()
