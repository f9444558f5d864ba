"""Determine the user and the group of a container's processes."""

from __future__ import annotations

import os

from phalanx.client.connection import Object
from phalanx.embedded.node.agent.starting.root import security_context
from phalanx.embedded.node.container.image import Image
from phalanx.embedded.node.machine.owners import MachineOwner
from phalanx.embedded.node.pod.environment import EnvironmentFault


def owner_user(owner: MachineOwner, spec: Object, pod: Object) -> tuple[int, int]:
    """Return the uid and gid of the namespace's owner. A pod that requests another user or group is refused. Raises
    EnvironmentFault."""
    context = security_context(spec, pod)
    user, group = context.get("runAsUser"), context.get("runAsGroup")
    if user not in (None, owner.user) or group not in (None, owner.group, *owner.groups):
        raise EnvironmentFault(
            f"runAsUser {user} and runAsGroup {group} are not those of namespace {pod['metadata']['namespace']}: its "
            f"pods run as user {owner.user}, with the groups {', '.join(map(str, owner.groups))}"
        )
    if context.get("privileged"):
        raise EnvironmentFault("privileged containers are refused on a shared machine")
    return owner.user, owner.group if group is None else group


def requested_user(spec: Object, pod: Object, image: Image) -> tuple[int | None, int | None]:
    """Return runAsUser and runAsGroup of the container; a value that the container does not set comes from the pod.
    Raises EnvironmentFault if the agent may not start processes of this user."""
    context = security_context(spec, pod)
    user, group = context.get("runAsUser"), context.get("runAsGroup")
    if os.geteuid() != 0:
        if image.layers:  # the user namespace of a container with an image already sets its user
            return None, None
        if (user not in (None, os.geteuid())) or (group not in (None, os.getegid())):
            raise EnvironmentFault(
                f"runAsUser {user} needs a node agent that runs as root; this agent runs as user {os.geteuid()}"
            )
        return None, None
    if context.get("runAsNonRoot") and not (user if user is not None else _is_number_of_user(image.user)):
        raise EnvironmentFault("container has runAsNonRoot and image will run as root; set runAsUser")
    return user, group


def _is_number_of_user(text: str) -> bool:
    """Return True if the image's user is a number other than 0. A name cannot be checked."""
    user = text.partition(":")[0]
    return user.isdigit() and int(user) != 0
