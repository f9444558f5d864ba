"""`agent/starting/image_wait.py`: the waits of a container without an image, with the kubelet's reasons."""

from __future__ import annotations

from phalanx.embedded.node.agent.starting.image_wait import image_wait
from phalanx.embedded.node.machine.settings import Patience
from phalanx.embedded.node.pod.lifecycle import ContainerStateWaiting

PATIENCE = Patience(backoff_first_s=10.0, backoff_most_s=300.0)


def test_a_missing_image_is_first_an_error_and_then_a_back_off() -> None:
    first = image_wait("tool:1", None, PATIENCE, 100.0)
    assert (first.waiting.reason, first.waiting.retry_s) == ("ErrImagePull", 110.0)
    assert "phalanx image import tool:1 SOURCE" in first.waiting.message
    assert [(reason, kind) for reason, _, kind in first.events] == [("Failed", "Warning"), ("Failed", "Warning")]
    second = image_wait("tool:1", first.waiting, PATIENCE, 110.0)
    assert (second.waiting.reason, second.waiting.retry_s) == ("ImagePullBackOff", 410.0)
    assert [(reason, kind) for reason, _, kind in second.events] == [("BackOff", "Normal"), ("Failed", "Warning")]
    third = image_wait("tool:1", second.waiting, PATIENCE, 410.0)
    assert (third.waiting.reason, third.events) == ("ImagePullBackOff", ())


def test_another_wait_before_is_no_pull() -> None:
    before = ContainerStateWaiting(reason="CreateContainerConfigError", message="no ConfigMap", retry_s=5.0)
    assert image_wait("tool:1", before, PATIENCE, 100.0).waiting.reason == "ErrImagePull"
