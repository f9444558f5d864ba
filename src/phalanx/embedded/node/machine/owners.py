"""Find the Unix users of pods on a shared machine. Each namespace belongs to a Unix user, and its pods run as this
user.

The annotations `phalanx.dev/uid` and `phalanx.dev/gid` of the namespace name the user. Only clients that may write
namespaces can write these annotations. `phalanx login` writes them for the user who logs in, and an administrator may
write them for any user. Pods of a namespace without the annotations run as the user nobody. An administrator may write
the uid 0, so that the pods run as root.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from phalanx.client.informer import Informer
from phalanx.embedded.node.pod.environment import EnvironmentFault

UID, GID = "phalanx.dev/uid", "phalanx.dev/gid"  # annotations of namespaces
_NOBODY = 65534
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOwner:
    """A Unix user: the uid, the gid, and the gids of further groups. `name` and `home` are "" if the machine has no
    user with this number."""

    user: int
    group: int
    groups: tuple[int, ...]
    name: str = ""
    home: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables that a login shell of the user would have."""
        named = {"USER": self.name, "LOGNAME": self.name} if self.name else {}
        return {"HOME": self.home or "/", **named}


class Owners:
    """The Unix users that own namespaces. The caller reads the owner at each start of a container, so a container gets
    the present groups of its owner."""

    def __init__(self, namespaces: Informer) -> None:
        self._namespaces = namespaces

    def of(self, namespace: str) -> MachineOwner:
        """Return the owner of a namespace. Raises EnvironmentFault if the namespace is unknown, or if its annotations
        are not numbers."""
        known = self._namespaces.objects.get(namespace)
        if known is None:
            raise EnvironmentFault(f"namespace {namespace} is not known to this node yet")
        notes = known["metadata"].get("annotations") or {}
        user = _number(namespace, UID, notes.get(UID, str(_NOBODY)))
        try:
            entry = pwd.getpwuid(user)
        except KeyError:
            group = _number(namespace, GID, notes.get(GID, str(_NOBODY)))
            return MachineOwner(user=user, group=group, groups=(group,))
        groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        return MachineOwner(user=user, group=entry.pw_gid, groups=groups, name=entry.pw_name, home=entry.pw_dir)


def _number(namespace: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) and int(text) <= _MOST):
        raise EnvironmentFault(f"namespace {namespace}: its annotation {name} is {text!r}, which is not a uid or gid")
    return int(text)
