"""Make the root directory of a container with an image, and determine the capabilities of its processes.

The files that a container writes are stored in the folder of its pod's volumes. These files count as disk usage of the
pod, and are deleted with the pod. After a restart, a container has only the files of its image again. If this machine
cannot mount the layers of an image over each other (overlayfs), the layers are copied into one tree.

A container has Docker's default capabilities, except those that affect the machine (MKNOD, NET_RAW). The container's
spec may add and drop capabilities. On a shared machine, containers have no capabilities.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from phalanx.embedded.node.container.attempt import Mount, Root
from phalanx.embedded.node.container.image import Image
from phalanx.embedded.node.container.isolation import Isolation
from phalanx.embedded.node.images.sources import copy_tree
from phalanx.embedded.node.images.unpack import Allowance
from phalanx.embedded.node.pod.environment import EnvironmentFault
from phalanx.embedded.trees import remove_tree
from phalanx.errors import PhalanxError

Object = Mapping[str, Any]
# The name of a capability in securityContext.capabilities -> its number (include/uapi/linux/capability.h).
_CAPABILITIES = {
    name: number
    for number, name in enumerate(
        [
            "CHOWN",
            "DAC_OVERRIDE",
            "DAC_READ_SEARCH",
            "FOWNER",
            "FSETID",
            "KILL",
            "SETGID",
            "SETUID",
            "SETPCAP",
            "LINUX_IMMUTABLE",
            "NET_BIND_SERVICE",
            "NET_BROADCAST",
            "NET_ADMIN",
            "NET_RAW",
            "IPC_LOCK",
            "IPC_OWNER",
            "SYS_MODULE",
            "SYS_RAWIO",
            "SYS_CHROOT",
            "SYS_PTRACE",
            "SYS_PACCT",
            "SYS_ADMIN",
            "SYS_BOOT",
            "SYS_NICE",
            "SYS_RESOURCE",
            "SYS_TIME",
            "SYS_TTY_CONFIG",
            "MKNOD",
            "LEASE",
            "AUDIT_WRITE",
            "AUDIT_CONTROL",
            "SETFCAP",
            "MAC_OVERRIDE",
            "MAC_ADMIN",
            "SYSLOG",
            "WAKE_ALARM",
            "BLOCK_SUSPEND",
            "AUDIT_READ",
            "PERFMON",
            "BPF",
            "CHECKPOINT_RESTORE",
        ]
    )
}
_DEFAULT = frozenset(
    [
        "CHOWN",
        "DAC_OVERRIDE",
        "FSETID",
        "FOWNER",
        "SETGID",
        "SETUID",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
        "KILL",
        "AUDIT_WRITE",
        "SETFCAP",
    ]
)
_RESOLVER = "/etc/resolv.conf"


def root_of(
    image: Image, place: Path, isolation: Isolation, spec: Object, pod: Object, devices: tuple[tuple[str, str], ...]
) -> Root:
    """Create the root directory for one attempt of a container in the folder `place`. Raises EnvironmentFault,
    OSError."""
    if isolation.root_refusal:
        raise EnvironmentFault(
            f"image {spec['image']} needs a root of its own, which this machine does not allow "
            f"({isolation.root_refusal}); run as root, or use `image: host`"
        )
    _forget_older(place)
    context = security_context(spec, pod)
    for name in ("upper", "work", "stage"):
        (place / name).mkdir(mode=0o755, parents=True, exist_ok=True)
    root = Root(
        stage=str(place / "stage"),
        user=image.user,
        user_id=context.get("runAsUser") or 0,
        group_id=context.get("runAsGroup") or 0,
        devices=devices,
        read_only=bool(context.get("readOnlyRootFilesystem")),
    )
    if not isolation.overlay_refusal:
        _take_status(Path(image.layers[0]), place / "upper")
        return replace(root, layers=image.layers, upper=str(place / "upper"), work=str(place / "work"))
    try:
        for layer in reversed(image.layers):
            copy_tree(Path(layer), place / "stage", Allowance())
    except PhalanxError as error:
        raise EnvironmentFault(f"the files of image {spec['image']} were not copied: {error}") from error
    return root


def _forget_older(place: Path) -> None:
    """Remove the files of earlier attempts of the container. The files of other containers stay, even if their names
    begin with the name of this container (`a` and `a-b`)."""
    own = re.compile(rf"{re.escape(place.name.rpartition('-')[0])}-[0-9]+")
    for older in list(place.parent.iterdir()) if place.parent.exists() else ():
        if own.fullmatch(older.name):
            remove_tree(older)


def _take_status(layer: Path, upper: Path) -> None:
    """Copy the owner and the mode of the image's root folder to the root of the container."""
    status = layer.stat()
    upper.chmod(stat.S_IMODE(status.st_mode))
    if os.geteuid() == 0:
        os.chown(upper, status.st_uid, status.st_gid)


def resolver(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Return a mount of the machine's resolv.conf, unless the container mounts another file there."""
    if not os.path.exists(_RESOLVER) or any(mount.target == _RESOLVER for mount in mounts):
        return ()
    return (Mount(source=os.path.realpath(_RESOLVER), target=_RESOLVER, read_only=True),)


def capabilities(spec: Object, pod: Object) -> tuple[int, ...]:
    """Return the numbers of the capabilities that a container with its own root may have. Raises EnvironmentFault."""
    context = security_context(spec, pod)
    if context.get("privileged"):
        return tuple(_CAPABILITIES.values())
    said = context.get("capabilities") or {}
    add, drop = (_named(said.get(key) or ()) for key in ("add", "drop"))
    return tuple(sorted(_CAPABILITIES[name] for name in ((_DEFAULT - drop) | add)))


def security_context(spec: Object, pod: Object) -> dict[str, Any]:
    """Return the security context of a container: its own fields, and the pod's fields that it does not set."""
    return {**(pod["spec"].get("securityContext") or {}), **(spec.get("securityContext") or {})}


def _named(names: Any) -> frozenset[str]:
    found = {str(name).upper().removeprefix("CAP_") for name in names}
    if "ALL" in found:
        return frozenset(_CAPABILITIES)
    if unknown := sorted(found - set(_CAPABILITIES)):
        raise EnvironmentFault(f"there is no capability {unknown[0]}")
    return frozenset(found)
