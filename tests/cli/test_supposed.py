"""`cli/study/supposed.py`: the new objects of `phalanx whatif`, as events for a copy of the cluster state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from phalanx.cli.files.manifest import Document, read_files
from phalanx.cli.study.supposed import supposed, told, unknown_classes
from phalanx.client.kind import JOBS, PRIORITY_CLASSES
from phalanx.core.fold.fold import fold
from phalanx.kube.read.labels import USER
from phalanx.model.event import QueueGone, QueueSeen, Submitted, Ticked
from phalanx.model.job import Placement
from phalanx.model.plan import Start
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
