"""Calls are counted by verb, group, resource and answer, and nothing in the count grows with the objects named."""

from __future__ import annotations

import pytest

from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.client.tally import Call, Spread, Tally, named

QUEUES = Kind(group="phalanx.dev", plural="queues", name="Queue", namespaced=False)


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [
        ("GET", PODS.path(), Call("list", "", "pods")),
        ("GET", PODS.path("a"), Call("list", "", "pods")),
        ("GET", PODS.path("a", "p"), Call("get", "", "pods")),
        ("GET", PODS.path("a", "p", "log"), Call("get", "", "pods/log")),
        ("POST", PODS.path("a", "p", "binding"), Call("create", "", "pods/binding")),
        ("PATCH", JOBS.path("a", "namespaces"), Call("patch", "batch", "jobs")),
        ("PATCH", QUEUES.path("", "q", "status"), Call("patch", "phalanx.dev", "queues/status")),
        ("DELETE", NODES.path("", "n"), Call("delete", "", "nodes")),
        ("GET", "/api/v1/namespaces", Call("list", "", "namespaces")),
        ("GET", "/api/v1/namespaces/a", Call("get", "", "namespaces")),
        *(("GET", path, Call("list", "", "")) for path in ("/version", "/", "/api", "/apis", "/apis/batch/v1")),
    ],
)
def test_a_call_is_named_as_rbac_names_it(method: str, path: str, call: Call) -> None:
    assert named(method, path) == call


def test_a_million_objects_are_one_line() -> None:
    tally = Tally()
    for number in range(1000):
        with tally.attempt("POST", PODS.path("a", f"p{number}", "binding")) as made:
            made.code = 201 if number else 409
    call = Call("create", "", "pods/binding")
    assert tally.calls == {call: {201: 999, 409: 1}}
    assert tally.seconds[call].count == 1000
    assert tally.writes == 1000
    assert tally.in_flight == 0


def test_a_call_without_an_answer_counts_as_one_of_status_0() -> None:
    tally = Tally()
    with pytest.raises(OSError, match="gone"), tally.attempt("PATCH", JOBS.path("a", "j")):
        raise OSError("gone")
    assert tally.calls == {Call("patch", "batch", "jobs"): {0: 1}}
    assert tally.answered_s is None


def test_a_value_on_a_bound_is_within_it() -> None:
    spread = Spread((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        spread.add(value)
    assert (spread.counts, spread.total) == ([2, 1, 1], 12.0)
