"""`cli/study/supposed.py`: the changes of `phalanx whatif`, as events for a copy of the cluster state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.files.manifest import Document, read_files
from phalanx.cli.study.supposed import additions, deletions, nodes_of, supposed, told, unknown_classes
from phalanx.client.kind import JOBS, NODES, PRIORITY_CLASSES
from phalanx.core.fold.fold import fold
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import USER
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
    QueueSeen,
    ReservationGone,
    ReservationSeen,
    Submitted,
    Ticked,
    Vacated,
)
from phalanx.model.job import Outcome, Placement, Slot
from phalanx.model.node import Flavor, Reservation, Taint
from phalanx.model.plan import Start
from phalanx.model.pod import amounts
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role

NOW_S = 1000.0


def book(*news: Any) -> Cluster:
    """Two nodes, with a job `default/runs` on both."""
    found = cluster(node("n1", cpu=8000), node("n2", cpu=8000), Ticked(NOW_S), *news)
    runs = replace(job("default/runs", role(count=2, cpu=1000)), user="ada", submitted_s=7.0)
    fold(found, [Submitted(runs), Start(runs.id, 1, (Placement(0, 0, "n1"), Placement(0, 1, "n2")))])
    return found


def documents(folder: Path, text: str) -> list[Document]:
    (folder / "change.yaml").write_text(text)
    return read_files([folder / "change.yaml"])


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, resources: {requests: {cpu: 1}}}]
"""


def objects(folder: Path, text: str, listed: Any = None, state: Cluster | None = None) -> Any:
    return supposed(documents(folder, text), listed or {}, state or book(), "default")


def test_a_new_job_is_read_as_the_scheduler_would_read_it(tmp_path: Path) -> None:
    found = objects(tmp_path, JOB.replace("NAME", "new"))
    made = found[JOBS]["default/new"]
    assert made["metadata"]["namespace"] == "default"
    assert made["spec"]["suspend"] is True
    events = told(found, book(), "default", NOW_S)
    [submitted] = [each for each in events if isinstance(each, Submitted)]
    assert (submitted.job.id, submitted.job.queue, submitted.job.submitted_s) == ("default/new", "default", NOW_S)


def test_a_job_that_is_there_keeps_its_age_and_its_user(tmp_path: Path) -> None:
    found = objects(tmp_path, JOB.replace("NAME", "runs"))
    meta = found[JOBS]["default/runs"]["metadata"]
    assert meta["annotations"][USER] == "ada"
    assert meta["creationTimestamp"] == "1970-01-01T00:00:07Z"


NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n9}\nstatus: STATUS\n"


QUEUE = "apiVersion: phalanx.dev/v1\nkind: Queue\nmetadata: {name: q}\nspec: {weight: WEIGHT}\n"


def test_queues_of_the_state_are_kept_beside_those_of_the_manifests(tmp_path: Path) -> None:
    found = objects(tmp_path, QUEUE.replace("WEIGHT", "3"))
    events = told(found, book(), "default", NOW_S)
    assert {each.queue.name: each.queue.weight for each in events if isinstance(each, QueueSeen)}["q"] == 3
    assert not any(isinstance(each, QueueGone) for each in events)


def test_an_unknown_priority_class_is_told_with_its_line(tmp_path: Path) -> None:
    def lines(name: str, known: Sequence[str] = ()) -> list[str]:
        text = JOB.replace("NAME", "a").replace("restartPolicy", f"priorityClassName: {name}\n      restartPolicy")
        return unknown_classes(documents(tmp_path, text), {PRIORITY_CLASSES: {key: {} for key in known}})

    [line] = lines("high")
    assert "change.yaml:8: the PriorityClass high is unknown, so the priority is assumed to be 0" in line
    assert lines("high", ["high"]) == lines("system-node-critical") == []
    assert unknown_classes(documents(tmp_path, JOB), {PRIORITY_CLASSES: {}}) == []


# --- deletions --------------------------------------------------------------------------------------------------------


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


# --- additions --------------------------------------------------------------------------------------------------------


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
