"""Compute the waiting state and the Events of a container whose image is not on this machine, like the kubelet."""

from __future__ import annotations

from typing import NamedTuple

from phalanx.embedded.node.container.image import HOST_IMAGE
from phalanx.embedded.node.machine.settings import Patience
from phalanx.embedded.node.pod.lifecycle import ContainerStateWaiting


class ImageWait(NamedTuple):
    """The wait for a missing image. `events`: (reason, message, type) of each Event to record."""

    waiting: ContainerStateWaiting
    events: tuple[tuple[str, str, str], ...]


def image_wait(image: str, before: ContainerStateWaiting | None, patience: Patience, now_s: float) -> ImageWait:
    """Return the wait for a missing image. `before`: the previous waiting state of the container. `now_s`: the Unix
    time."""
    text = (
        f'image "{image}" is not on this machine, which pulls none by itself: import it (`phalanx image import '
        f'{image} SOURCE`, as who runs `phalanx up`), use "image: {HOST_IMAGE}" and a command that is installed '
        "here, or say with `phalanx up --local-images FILE` what of this machine stands in for it"
    )
    if before is None or before.reason not in ("ErrImagePull", "ImagePullBackOff"):
        waiting = ContainerStateWaiting(reason="ErrImagePull", message=text, retry_s=now_s + patience.backoff_first_s)
        failed = ("Failed", f'Failed to pull image "{image}": {text}', "Warning")
        return ImageWait(waiting, (failed, ("Failed", "Error: ErrImagePull", "Warning")))
    back_off = f'Back-off pulling image "{image}"'
    retry_s = now_s + patience.backoff_most_s
    waiting = ContainerStateWaiting(reason="ImagePullBackOff", message=f"{back_off}: {text}", retry_s=retry_s)
    is_new = before.reason == "ErrImagePull"
    events = (("BackOff", back_off, "Normal"), ("Failed", "Error: ImagePullBackOff", "Warning"))
    return ImageWait(waiting, events if is_new else ())
