"""`kube/gang/lifecycle/start_history.py`: what failed starts leave behind for the next."""

from __future__ import annotations

from math import inf

from phalanx.kube.gang.lifecycle.start_history import StartHistory
from tests.kube.gang.recorded_effects import a_pod, waiting


def test_a_node_is_avoided_until_its_time_is_over() -> None:
    history = StartHistory()
    history.avoid("n1", 20.0)
    history.avoid("n1", 10.0)
    preference = history.preference(19.0)
    assert preference is not None
    assert [requirement.values for requirement in preference.term] == [("n1",)]
    assert history.preference(20.0) is None


def test_pods_that_are_late_in_too_many_starts_hold_the_gang() -> None:
    history, late = StartHistory(), [a_pod("a", node="n1")]
    assert history.time_out(late, 2) == ""
    assert (history.failures, history.avoided) == (0, {"n1": inf})
    assert history.time_out(late, 2) == "2 starts in a row failed"
    assert (history.timeouts, history.failures) == (0, 1)


def test_pods_that_become_ready_forgive_what_was_before() -> None:
    history = StartHistory()
    history.time_out([a_pod("a", node="n1")], 3)
    history.forgive()
    assert (history.timeouts, history.avoided) == (0, {})


def test_a_spec_avoids_nodes_in_every_role_and_forgets_clusters_whose_time_is_over() -> None:
    _, gang = waiting()
    assert gang.spec is not None
    history = StartHistory(left_out={"east": 5.0})
    assert history.avoiding(gang.spec, 5.0) == gang.spec
    assert history.left_out == {}
    history.avoid("n1", 9.0)
    [role] = history.avoiding(gang.spec, 6.0).job.roles
    assert role.shape.preferences[-1] == history.preference(6.0)
