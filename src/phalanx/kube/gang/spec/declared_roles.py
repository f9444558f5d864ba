"""Roles of bare pods that a dialect's definitions declare: how many of each start together, and the tree of groups that
they form (KAI's PodGroup with sub-groups).

A group of which no pod exists is no part of the gang yet. Nor are the pods of a role with fewer pods than its minimum,
and pods of no declared role. Such pods start with the gang if there is capacity (`SURPLUS`), and the gang does not wait
for them. The whole tree decides whether the existing pods are enough, including the roles without pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from phalanx.dialects.frame.dialect import RoleClaim
from phalanx.kube.gang.spec.held_resources import GangSpecError
from phalanx.model.job import Group, Role, gang_error, gang_tree
from phalanx.model.pod import Shape
from phalanx.model.reason import Reason, ReasonCode

# No group of a dialect has such a name.
SURPLUS = ":surplus"
ANY_ONE = ":any-one"  # the group of roles of which any one pod is needed, whatever its shape


def grouped_role(role: Role, name: str, declared: Mapping[str, RoleClaim], there: int) -> Role:
    """Return the role with its group. `name`: the declared name of the role. `there`: the number of existing pods of
    the role."""
    said = declared.get(name)
    if said is None or there < said.minimum:
        return replace(role, minimum=0, group=SURPLUS)
    return replace(role, group=said.group)


def groups_in_use(groups: Sequence[Group], used: Iterable[str]) -> tuple[Group, ...]:
    """Return the declared groups that contain a role, directly or in a group below. `used`: the groups of all roles."""
    kept = set(used)
    parents = {group.name: group.parent for group in groups}
    for name in tuple(kept):
        while (name := parents.get(name, "")) and name not in kept:
            kept.add(name)
    surplus = (Group(name=SURPLUS, minimum=0),) if SURPLUS in kept else ()
    return (*(group for group in groups if group.name in kept), *surplus)


def missing_of_declared(
    there: Mapping[str, int], declared: Mapping[str, RoleClaim], groups: Sequence[Group]
) -> Reason | None:
    """Return why the gang is not complete; None: it is. `there`: existing pods by the name of their role. Raises
    GangSpecError."""
    shape = Shape(requests=())
    most = {name: max(said.minimum, there.get(name, 0)) for name, said in declared.items()}
    roles = [
        Role(name=name, count=most[name], minimum=said.minimum, shape=shape, group=said.group)
        for name, said in declared.items()
    ]
    if error := gang_error(roles, groups, None):
        raise GangSpecError(error)
    if gang_tree(roles, groups, None).placed([there.get(role.name, 0) for role in roles]):
        return None
    short = [
        f"{there.get(role.name, 0)} of {role.minimum} pods" + (f" of {role.name}" if role.name else "")
        for role in roles
        if there.get(role.name, 0) < role.minimum
    ]
    text = f"waiting for members: {', '.join(short)} exist"
    wanted, exist = sum(role.minimum for role in roles), sum(there.values())
    return Reason(code=ReasonCode.WAITING_FOR_MEMBERS, text=text, numbers={"exist": exist, "wanted": wanted})
