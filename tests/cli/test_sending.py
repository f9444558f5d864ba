"""`cli/submission/sending.py`: sending objects to the API, after a look at what would let them wait for ever."""

from __future__ import annotations

from typing import Any

from phalanx.cli.submission.sending import beyond, shut
from phalanx.model.node import Node


def test_a_pod_beyond_every_node_is_told_by_the_resource_that_is_missing() -> None:
    nodes = [Node(name="n", allocatable=(("cpu", 4000), ("memory", 1 << 30)))]
    assert beyond((("cpu", 2000),), nodes) == ""
    assert beyond((("nvidia.com/gpu", 1),), nodes).startswith(
        "one of its pods requests 1 nvidia.com/gpu, but the largest node has 0"
    )
    assert beyond((("cpu", 1),), []) == "the cluster has no nodes; it waits until a node joins"


def test_a_queue_that_starts_nothing_new_is_known_before_a_job_is_sent_there() -> None:
    specs: dict[str, dict[str, Any]] = {
        "lab": {"state": "draining"},
        "vision": {"parent": "lab"},
        "speech": {"parent": "lab", "state": "held"},
        "default": {},
        "odd": {"parent": "strange"},
        "strange": {"parent": "odd"},
    }
    assert shut("vision", specs) == (
        "queue 'lab', above 'vision', is draining: jobs that are submitted now wait until it is open"
    )
    assert shut("speech", specs) == "queue 'speech' is held: jobs that are submitted now wait until it is open"
    assert [shut(queue, specs) for queue in ("default", "odd", "unknown")] == ["", "", ""]
