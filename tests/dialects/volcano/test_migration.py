"""What `phalanx migrate --from volcano` says of each object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phalanx.dialects.volcano.pod_groups import moved
from tests.cli.test_app import call
from tests.dialects.manifests import objects
from tests.dialects.volcano.test_examples import EXAMPLES

SCHEDULING, BATCH = "scheduling.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1"
CONFIGURATION = 'actions: "enqueue, allocate, shuffle"\ntiers:\n- plugins: [{name: gang}, {name: odd}]\n'


def becomes(kind: str, spec: Any, version: str = SCHEDULING, **fields: Any) -> tuple[str, tuple[str, ...]]:
    (found,) = moved([{"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec, **fields}])
    return found.becomes, found.notes


def test_queues_groups_and_jobs() -> None:
    assert becomes("Queue", {"parent": "lab"}, status={"state": "Closing"}) == ("the queue a below lab, closed", ())
    assert becomes("PodGroup", {"minMember": 3, "queue": "q"}) == ("a gang of at least 3 in the queue q", ())
    said, notes = becomes("Job", {"runningEstimate": "1h"}, BATCH)
    assert said == "runs unchanged, in the queue default"
    assert notes[0].startswith("spec.runningEstimate has no effect")
    said, notes = becomes("Queue", {"weight": "x"})
    assert (said, "spec.weight" in notes[0]) == ("nothing, because it is invalid", True)
    template = {"template": {"spec": {"schedulerName": "volcano"}}}
    assert becomes("Deployment", template, "apps/v1")[0] == "pods that Phalanx schedules unchanged"
    assert moved([{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "b"}, "spec": {}}]) == ()


def test_the_schedulers_configuration() -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    (found,) = moved([{**body, "data": {"volcano-scheduler.conf": CONFIGURATION}}])
    assert [note.partition(":")[0] for note in found.notes] == [
        "the action enqueue is used (the cycle)",
        "the action allocate is used (the cycle)",
        "the action shuffle has no effect",
        "the plugin gang is used (Role.minimum)",
        "the plugin odd is unknown to Phalanx, and has no effect",
    ]
    (found,) = moved([{**body, "data": {"volcano-scheduler.conf": "- 1"}}])
    assert found.notes == (
        "volcano-scheduler.conf is not a mapping with actions and tiers: the configuration is ignored",
    )
    assert moved([body]) == ()


@pytest.mark.slow
def test_every_example_is_told_of() -> None:
    found = [obj for file in EXAMPLES for obj in objects(file) if "apiVersion" in obj and obj.get("metadata")]
    theirs = [obj for obj in found if ".volcano.sh/" in obj["apiVersion"]]
    told = moved(found)
    assert len(told) >= len(theirs) > 60
    unknown = [note for one in told for note in one.notes if "unknown to Phalanx" in note and "kind" not in note]
    assert sorted(set(unknown)) == [  # fields that no version of the definitions has, and a plugin of a reader's own
        "spec.guarantee.deviceclass/gpu.nvidia.com is unknown to Phalanx, and has no effect",
        "spec.tasks[].networkTopology is unknown to Phalanx, and has no effect",
        "spec.tasks[].volumes is unknown to Phalanx, and has no effect",
        "the plugin magic is unknown to Phalanx, and has no effect",
    ]


def test_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "now.yaml"
    file.write_text(f"{{apiVersion: {SCHEDULING}, kind: Queue, metadata: {{name: a}}, spec: {{}}}}")
    assert call(monkeypatch, "migrate", str(file), "--from", "volcano") == 0
    out = capsys.readouterr().out
    assert "Queue a: the queue a below root, open" in out
    assert "stop Volcano's scheduler" in out
