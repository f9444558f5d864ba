"""`cli/study/named_changes.py`: deleted objects and added nodes, as events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.cli.study.named_changes import additions, deletions, nodes_of
from phalanx.cli.study.supposed import supposed
from phalanx.client.kind import NODES
from phalanx.core.fold.fold import fold
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES
from phalanx.model.event import (
    Event,
    Finished,
    FlavorGone,
    FlavorSeen,
    NodeGone,
    NodeSeen,
    Occupied,
    Opened,
    QueueGone,
    ReservationGone,
    ReservationSeen,
    Vacated,
)
from phalanx.model.job import Outcome, Slot
from phalanx.model.node import Flavor, Reservation, Taint
from phalanx.model.pod import amounts
from phalanx.state.cluster import Cluster
from tests.cli.test_supposed import book
from tests.core.builders import node


def deleted(*names: str, state: Cluster | None = None) -> list[Event]:
    return list(deletions(state or book(), names, "default"))


def test_each_kind_of_object_can_be_deleted() -> None:
    reservation = Reservation(name="r", start_s=0.0, end_s=1.0, nodes=("n1",))
    state = book(FlavorSeen(Flavor(name="f")), ReservationSeen(reservation))
    assert deleted("job/runs", "queue/default", "flavor/f", "reservation/r", state=state) == [
        Finished("default/runs", Outcome.DELETED),
        QueueGone("default"),
        FlavorGone("f"),
        ReservationGone("r"),
    ]
    assert deleted("jobs/default/runs") == deleted("JOB/runs") == [Finished("default/runs", Outcome.DELETED)]


def test_a_deleted_node_takes_its_pods_along() -> None:
    state = book(Occupied("foreign", "n1", amounts({"cpu": 1, "pods": 1})))
    assert deleted("node/n1", state=state) == [
        Vacated("foreign"),
        Opened("default/runs", (Slot(0, 0),)),
        NodeGone("n1"),
    ]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("job/run", r"job/run: there is no 'default/run'.*Did you mean default/runs"),
        ("node/x", r"node/x: there is no 'x'\. Nothing was simulated\. Known names: n1, n2"),
        ("flavor/x", "Known names: none"),
        ("pod/x", r"--delete pod/x: write job/NAMESPACE/NAME"),
        ("runs", "--delete runs: write job/"),
        ("", "--delete : write job/"),
    ],
)
def test_an_unknown_object_cannot_be_deleted(name: str, complaint: str) -> None:
    with pytest.raises(PhalanxError, match=complaint):
        deleted(name)


def added(*pools: str, like: str | None = None, state: Cluster | None = None) -> list[Any]:
    return [event.node for event in additions(state or book(), pools, like) if isinstance(event, NodeSeen)]


def test_copies_of_a_node_have_names_of_their_own() -> None:
    assert [one.name for one in added("2xn1", "1xn1", "1", like="n1")] == [f"n1-more-{at}" for at in range(4)]
    state = book(node("n1-more-0", cpu=1))
    assert [one.name for one in added("1xn1", state=state)] == ["n1-more-1"]


def test_a_copy_is_empty_ready_and_schedulable() -> None:
    hostname, cordoned = "kubernetes.io/hostname", Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    own = Taint("gpu", "yes", "NoSchedule")
    model = replace(
        node("model", labels={hostname: "model", "rack": "a"}, cpu=4),
        unschedulable=True,
        ready=False,
        taints=(cordoned, own),
    )
    [copy] = added("1xmodel", state=book(model))
    assert (copy.unschedulable, copy.ready, copy.allocatable) == (False, True, model.allocatable)
    assert dict(copy.labels) == {hostname: "model-more-0", "rack": "a"}
    assert copy.taints == (own,)  # without those that Kubernetes gives to a node that is not in order


@pytest.mark.parametrize("text", ["0xn1", "100001xn1", "4", "xn1", "4x", "-1xn1", "4 x n1", "n1"])
def test_an_invalid_number_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(PhalanxError, match=rf"--add-nodes {text}: write the number and an existing node"):
        added(text)


def test_an_unknown_model_is_refused() -> None:
    for pool, like in (("4xn3", None), ("4", "n3")):
        with pytest.raises(
            PhalanxError, match=r"node/n3: there is no 'n3'\. Nothing was simulated\. Known names: n1, n2"
        ):
            added(pool, like=like)


def test_the_nodes_of_the_state() -> None:
    state = book()
    fold(state, [NodeGone("n2")])
    assert list(nodes_of(state)) == ["n1"]
    assert QUEUES in supposed([], {}, state, "default")
    assert NODES in supposed([], {}, state, "default")
