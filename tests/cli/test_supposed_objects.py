"""`cli/study/supposed_objects.py`: the objects of manifests as if they existed."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.study.supposed import told
from phalanx.client.kind import JOBS
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import ADMITTED, USER
from phalanx.model.event import (
    NodeSeen,
)
from tests.cli.test_supposed import JOB, NODE, NOW_S, QUEUE, book, objects


def test_a_listed_object_is_replaced_and_keeps_what_the_scheduler_wrote(tmp_path: Path) -> None:
    old = {
        "metadata": {
            "name": "a", "namespace": "default", "uid": "real", "resourceVersion": "9", "labels": {"old": "x"},
            "annotations": {ADMITTED: "[]", USER: "bob", "own": "old"},
        },
        "spec": {"suspend": False},
        "status": {"active": 1},
    }  # fmt: skip
    text = JOB.replace(
        "{name: NAME}", "{name: a, labels: {new: x}, annotations: {own: new, phalanx.dev/admitted: forged}}"
    )
    found = objects(tmp_path, text, {JOBS: {"default/a": old, "default/b": old}})
    made = found[JOBS]["default/a"]
    assert (made["metadata"]["uid"], made["status"], made["spec"]["suspend"]) == ("real", {"active": 1}, False)
    assert made["metadata"]["annotations"] == {ADMITTED: "[]", USER: "bob", "own": "new"}
    assert made["metadata"]["labels"]["new"] == "x"
    assert "old" not in made["metadata"]["labels"]
    assert found[JOBS]["default/b"] is old


@pytest.mark.parametrize(
    ("status", "pods"),
    [("{allocatable: {cpu: 4}}", 110), ("{capacity: {cpu: 4}}", 110), ("{capacity: {cpu: 4, pods: 7}}", 7)],
)
def test_a_new_node_is_ready_and_has_room_for_pods(status: str, pods: int, tmp_path: Path) -> None:
    events = told(objects(tmp_path, NODE.replace("STATUS", status)), book(), "default", NOW_S)
    [seen] = [each.node for each in events if isinstance(each, NodeSeen)]
    assert (seen.name, seen.ready, dict(seen.allocatable)) == ("n9", True, {"cpu": 4000, "pods": pods})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n",
            r":2: a Service \(v1\) cannot be simulated.*Supported",
        ),
        (NODE.replace("STATUS", "{}"), ":4: the manifest of the node has no resources"),
        (NODE.replace("status: STATUS\n", ""), ":1: the manifest of the node has no resources"),
        (NODE.replace("STATUS", "[]"), ":4: the manifest of the node has no resources"),
        (NODE.replace("STATUS", "{allocatable: {cpu: many}}"), ":4: .*many"),
        (QUEUE.replace("WEIGHT", "heavy"), ":4: .*weight.*Nothing was simulated"),
        (QUEUE.replace("{name: q}", "{labels: {a: b}}").replace("WEIGHT", "1"), ":3: metadata.name is missing"),
        (JOB.replace("containers: [", "containers: [7, ").replace("NAME", "a"), ":2: this cannot be read as a Job"),
    ],
)
def test_an_invalid_manifest_is_refused_with_its_line(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(PhalanxError, match=rf"change\.yaml{complaint}"):
        objects(tmp_path, text)
