"""Settings without an effect are reported on their object."""

from __future__ import annotations

from phalanx.dialects.frame.fields import unused
from phalanx.dialects.kai.fields import TABLES, notes


def test_what_has_no_effect_is_said_of_the_object() -> None:
    spec = {"displayName": "A", "resources": {"cpu": {"quota": 1, "limit": -1}, "gpu": {"limit": 0}}}
    assert list(notes("Queue", {"metadata": {}, "spec": spec})) == [
        "spec.displayName has no effect: messages show the name of the Queue",
        "spec.resources.memory.limit, spec.resources.gpu.limit: if absent or 0, the queue admits no pods that request "
        "the resource; set -1 for no limit",
    ]
    words = {"kai.scheduler/segment-size": "4", "kai.scheduler/queue": "q", "kai.scheduler/odd": "1", "mps": "true"}
    assert [text.partition(":")[0] for text in notes("Pod", {"metadata": {"annotations": words}})] == [
        "kai.scheduler/segment-size has no effect",
        "kai.scheduler/odd is unknown to Phalanx, and has no effect",
        "mps has no effect",
    ]


def test_a_field_that_nobody_knows_is_said_too() -> None:
    assert list(unused({"nodeLabel": {}}, TABLES["Topology"])) == [
        "spec.nodeLabel is unknown to Phalanx, and has no effect"
    ]
