"""Read the roles of bare pods that another scheduler's object declares, such as KAI's PodGroup with sub-groups. The
object declares how many pods of each role start together, and the tree of groups that the roles form.

A group without any pod is not part of the gang yet. The gang does not wait for two kinds of pods: pods without a
declared role, and pods of a role that has fewer pods than its minimum. They start with the gang if there is capacity
(`SURPLUS`). The gang is complete if enough pods exist to satisfy the minimums in the whole tree of groups. This check
also includes the roles without pods.

This module also computes the capacity that is reserved for pods that a running driver has yet to create (Spark's
executors).

The option `phalanx.dev/min-resources` sets the amounts of resources that the whole gang requests. The requests of the
existing pods are subtracted, and the remainder is divided into equal pieces. If the number of missing members is known,
there is one piece for each of them. Otherwise each piece is as large as the largest node allows, because a large piece
can hold pods of any shape. When the first of these pods exists, its shape is known. The pieces on each node are then
divided again into as many pods of this shape as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from phalanx.client.quantity import amount
from phalanx.dialects.frame.dialect import RoleClaim
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import read_json
from phalanx.model.job import Group, Role, gang_error, gang_tree
from phalanx.model.pod import PODS, Amounts, Shape, amounts
from phalanx.model.reason import Reason, ReasonCode

_MOST_BLOCKS = 10_000


class GangSpecError(PhalanxError):
    """An error in the manifests of a gang, such as an invalid setting. The text contains the setting, the object, and
    what the user can do."""


def read_resources(text: str) -> dict[str, int]:
    """Parse amounts: `{"cpu": "3", "memory": "3Gi"}` or `cpu=3,memory=3Gi`. Raises GangSpecError."""
    try:
        if text.lstrip().startswith("{"):
            pairs: Mapping[str, Any] = read_json(text, dict[str, Any])
        else:
            pairs = dict(_pair(part) for part in text.split(",") if part.strip())
        return {name: amount(name, value) for name, value in pairs.items() if name != PODS}
    except (PhalanxError, ArithmeticError, ValueError, TypeError) as error:
        raise GangSpecError(
            f"phalanx.dev/min-resources is {text[:60]!r}, which cannot be read ({error}): "
            'write for instance {"cpu": "3", "memory": "3Gi"} or cpu=3,memory=3Gi'
        ) from error


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise ValueError(f"{part.strip()!r} has no '='")
    return name.strip(), value.strip()


def remaining_resources(whole: Mapping[str, int], existing: Iterable[Amounts]) -> dict[str, int]:
    """Return `whole` less the requests of the existing pods (`existing`). No amount is less than zero."""
    rest = dict(whole)
    for requests in existing:
        for name, value in requests:
            if name in rest:
                rest[name] = max(0, rest[name] - value)
    return {name: value for name, value in rest.items() if value}


def equal_pieces(rest: Mapping[str, int], missing: int | None, largest: Mapping[str, int]) -> tuple[int, Amounts]:
    """Return the number and the size of the pieces into which `rest` is divided. There are `missing` equal pieces or,
    if `missing` is None, as few pieces as possible that each fit the largest node."""
    if not rest:
        return 0, ()
    count = missing if missing is not None else _blocks(rest, largest)
    if count < 1:
        return 0, ()
    return count, amounts({**{name: ceil(value / count) for name, value in rest.items()}, PODS: 1})


def _blocks(rest: Mapping[str, int], largest: Mapping[str, int]) -> int:
    """Return the number of pieces, which is at least one. A resource that no node has is ignored here. It prevents the
    job's start anyway, and is reported in the job's reason."""
    return max(1, *(min(_MOST_BLOCKS, ceil(v / largest[n])) if largest.get(n) else 1 for n, v in rest.items()))


def pods_in_pieces(held: Iterable[Amounts], real: Shape) -> int:
    """Return how many pods of the shape `real` fit into the total capacity of the pieces `held`, which are on one
    node."""
    room: dict[str, int] = {}
    for piece in held:
        for name, value in piece:
            room[name] = room.get(name, 0) + value
    asks = [(name, value) for name, value in real.requests if name != PODS]
    return min((room.get(name, 0) // value for name, value in asks), default=room.get(PODS, 0))


# The names of these two groups begin with a colon, so that they differ from the names of all declared groups.
SURPLUS = ":surplus"
ANY_ONE = ":any-one"  # the group in which a single pod of any role is enough


def grouped_role(role: Role, name: str, declared: Mapping[str, RoleClaim], existing: int) -> Role:
    """Return the role with the group that is declared for it. A role that is not declared, or has fewer pods than its
    minimum, gets the group `SURPLUS`. `name`: the declared name of the role. `existing`: the number of existing pods of
    the role."""
    said = declared.get(name)
    if said is None or existing < said.minimum:
        return replace(role, minimum=0, group=SURPLUS)
    return replace(role, group=said.group)


def groups_in_use(groups: Sequence[Group], used: Iterable[str]) -> tuple[Group, ...]:
    """Return the declared groups that contain a role of the gang. A group also contains the roles of its sub-groups.
    `used`: the groups of all roles."""
    kept = set(used)
    parents = {group.name: group.parent for group in groups}
    for name in tuple(kept):
        while (name := parents.get(name, "")) and name not in kept:
            kept.add(name)
    surplus = (Group(name=SURPLUS, minimum=0),) if SURPLUS in kept else ()
    return (*(group for group in groups if group.name in kept), *surplus)


def missing_of_declared(
    existing: Mapping[str, int], declared: Mapping[str, RoleClaim], groups: Sequence[Group]
) -> Reason | None:
    """Return why the gang is not complete; None if it is complete. `existing`: the number of existing pods by the name
    of their role. Raises GangSpecError."""
    shape = Shape(requests=())
    most = {name: max(said.minimum, existing.get(name, 0)) for name, said in declared.items()}
    roles = [
        Role(name=name, count=most[name], minimum=said.minimum, shape=shape, group=said.group)
        for name, said in declared.items()
    ]
    if error := gang_error(roles, groups, None):
        raise GangSpecError(error)
    if gang_tree(roles, groups, None).placed([existing.get(role.name, 0) for role in roles]):
        return None
    short = [
        f"{existing.get(role.name, 0)} of {role.minimum} pods" + (f" of {role.name}" if role.name else "")
        for role in roles
        if existing.get(role.name, 0) < role.minimum
    ]
    text = f"waiting for members: {', '.join(short)} exist"
    wanted, exist = sum(role.minimum for role in roles), sum(existing.values())
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text, numbers={"exist": exist, "wanted": wanted})
