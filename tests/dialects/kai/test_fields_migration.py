"""`dialects/kai/fields.py`: the Phalanx equivalent of each object of a cluster with KAI."""

from __future__ import annotations

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kai import kinds
from phalanx.dialects.kai.fields import moved
from phalanx.dialects.kai.queues import define


def test_a_queue_and_those_below_it_move_pods_where_a_word_of_ours_says_so() -> None:
    def one(name: str, said: str = "", parent: str = "") -> Object:
        annotations = {"phalanx.dev/consolidate": said} if said else {}
        spec = {"parentQueue": parent} if parent else {}
        return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}

    queues = (one("top", "true"), one("low", parent="top"), one("still", "false", "top"), one("beside"))
    found = define({kinds.QUEUES: {each["metadata"]["name"]: each for each in queues}})
    moved = [each.name for each in found.queues if each.preemption.consolidate]
    assert moved == ["kai/top", "kai/low"]


def test_what_objects_become_is_said_before_they_move() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "kai-scheduler"}}
    other = {"kind": "Pod", "metadata": {"name": "x"}, "spec": {}}
    one = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"parentQueue": "r"},
    }
    queue_said, pod_said = moved([one, pod, other])
    assert queue_said.becomes == "the queue kai/q below kai/r"
    assert queue_said.notes[0].startswith("it starts no jobs: the queue r, above q, does not exist")
    assert "the queue admits no pods" in queue_said.notes[1]
    assert pod_said.becomes == "jobs of the queue kai/default-queue, which does not exist"
