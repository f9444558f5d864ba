"""Decides by YuniKorn's ACLs whether a user may submit to a queue.

An ACL lists users and groups, `user1,user2 group1,group2`; `*` admits every user, an empty ACL no user. A user may
submit to a queue if the `submitacl` or the `adminacl` of that queue, or of any queue above it, admits the user. So
without any ACL no user may submit; `submitacl: '*'` at the root admits all.

Source: pkg/common/security/acl.go and pkg/scheduler/objects/queue.go of apache/yunikorn-core (1.9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from phalanx.dialects.yunikorn.configuration import QueueBranch

_ANYBODY = "*"


@dataclass(frozen=True, slots=True)
class Acl:
    """The users and groups of an ACL."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def admits(self, user: str, groups: Sequence[str]) -> bool:
        """Return whether the ACL lists the user, one of the groups, or `*`."""
        everybody = _ANYBODY in self.users or _ANYBODY in self.groups
        return everybody or user in self.users or not self.groups.isdisjoint(groups)


Access = Mapping[str, tuple[Acl, ...]]  # full name of a queue -> its ACLs and those of all queues above it


def read_acl(text: str) -> Acl:
    """Parse an ACL. A blank separates the users from the groups; a leading blank means that there are no users."""
    users, _, groups = text.rstrip().partition(" ")
    return Acl(*(frozenset(name for name in part.split(",") if name) for part in (users, groups.strip())))


def access_of(roots: Sequence[QueueBranch]) -> Access:
    """Return the ACLs that count for each queue."""
    return dict(entry for root in roots for entry in _access(root, "", ()))


def may_submit(access: Access, queue: str, user: str, groups: Sequence[str]) -> bool:
    """Return whether the user may submit to the queue. `queue`: the full name."""
    return any(acl.admits(user, groups) for acl in access.get(queue, ()))


def _access(queue: QueueBranch, prefix: str, above: tuple[Acl, ...]) -> Iterator[tuple[str, tuple[Acl, ...]]]:
    name = f"{prefix}{queue.name}".lower()
    here = (*above, read_acl(queue.submit_acl), read_acl(queue.admin_acl))
    yield name, here
    for child in queue.queues:
        yield from _access(child, f"{name}.", here)
