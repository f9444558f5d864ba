"""`dialects/kai/grouper.py`: KAI's pod grouper."""

from __future__ import annotations

import pytest

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.grouper import KaiGroup, OwnerName, grouped, options_of


def meta(owner: str = "", **labels: str) -> Object:
    kind, _, name = owner.partition("/")
    ref = {"apiVersion": "v1", "kind": kind, "name": name, "uid": "u1", "controller": True}
    said = {key.replace("__", "/").replace("_", "-"): text for key, text in labels.items()}
    return {"name": "p", "uid": "u0", "labels": said, **({"ownerReferences": [ref]} if owner else {})}


POD = OwnerName("v1", "Pod", "p", "u0")


@pytest.mark.parametrize(
    ("found", "group"),
    [
        (meta(), KaiGroup("pg-p-u0", POD)),
        (meta("Job/j"), KaiGroup("pg-j-u1", OwnerName("v1", "Job", "j", "u1"))),
        (meta("ReplicaSet/r"), KaiGroup("pg-r-u1", OwnerName("v1", "ReplicaSet", "r", "u1"))),
        (meta("ReplicaSet/r", pod_template_hash="x"), KaiGroup("pg-p-u0", POD._replace(kind="Deployment"))),
        (meta("Pod/driver", spark_app_selector="s", spark_app_name="n"), KaiGroup("s", POD)),
        (
            meta("PyTorchJob/t", **{"training.kubeflow.org/replica-type": "Worker"}),
            KaiGroup("pg-t-u1", OwnerName("v1", "PyTorchJob", "t", "u1"), "worker"),
        ),
    ],
)
def test_the_kind_of_the_owner_says_who_is_grouped(found: Object, group: KaiGroup) -> None:
    assert grouped(found) == group


def test_a_pod_says_queue_part_of_a_gpu_and_pod_group() -> None:
    said = meta(kai_scheduler__queue="q") | {"annotations": {"gpu-memory": "2000"}}
    said["labels"] = {"kai.scheduler/queue": "q"}
    found = options_of(said, kinds.SCHEDULER_NAME)
    assert found["phalanx.dev/queue"] == "kai/q"
    assert found["phalanx.dev/gpu-memory"] == "2000Mi"
    assert found["phalanx.dev/job"] == "kai:pg-p-u0"
    assert options_of(said, "default-scheduler") == {}
    said["labels"] = {"project": "team", "kai.scheduler/node-pool": "a100"}
    assert options_of(said, kinds.SCHEDULER_NAME)["phalanx.dev/queue"] == "kai/team-a100"
    said["labels"] = {}
    assert options_of(said, kinds.SCHEDULER_NAME)["phalanx.dev/queue"] == "kai/default-queue"
