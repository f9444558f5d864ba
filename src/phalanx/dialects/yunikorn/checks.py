"""Check a parsed queue configuration for contradictions. If one is found, the whole file is rejected.

The checks run in the same order as in YuniKorn, so that Phalanx and YuniKorn report the same first error. They check
the structure of the queues, names, access lists and limits, the quotas from the root down, the placement rules, the
node sort policy, and last the limits of users and groups from the root down.

A quota limits only the resources that it names. The maximum of a queue is the smallest of its own quota and the quotas
of all queues above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn, TypeAlias

import re2
from msgspec.structs import replace

from phalanx.dialects.schema.fields import Path
from phalanx.dialects.yunikorn.configuration import (
    ANYBODY,
    MOST_QUEUES,
    ROOT,
    Filter,
    Limit,
    Lines,
    PlacementRule,
    QueueBranch,
    QueuePartition,
    Resources,
    YuniKornConfiguration,
    YuniKornConfigurationError,
    line_of,
    parse,
)

DEFAULT_PARTITION = "default"
QUEUE_NAME = re.compile(r"[a-zA-Z0-9_:#/@-]{1,64}")
_USER = re.compile(r"[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP = re.compile(r"[_a-zA-Z][a-zA-Z0-9:_.-]*")
_RULE = re.compile(r"[_a-zA-Z][a-zA-Z0-9_]*")
# If a list has only one name, and the name has one of these characters, the name is a regular expression.
_SPECIAL = re.compile(r"[\^$*+?()\[{}|]")
_QUANTITY = re.compile(r"\s*([0-9]+)\s*([mkMGTPE]i?)?\s*")
_UNITS = {"": 1, **{letter: 1000**at for at, letter in enumerate("kMGTPE", 1)}}
_UNITS |= {f"{letter.upper()}i": 1024**at for at, letter in enumerate("kMGTPE", 1)}
_MOST = 2**63 - 1
_NODE_ORDERS = ("", "fair", "binpacking")

# name of a user or group -> the smallest limit of this user or group in the queues above
ResourceBounds: TypeAlias = Mapping[str, Mapping[str, int]]
CountBounds: TypeAlias = Mapping[str, int]


def read(text: str) -> YuniKornConfiguration:
    """Return the configuration in its normal form: each partition has a root queue, and the limits of the partition are
    moved to this queue. Raise YuniKornConfigurationError if the file is invalid."""
    found, lines = parse(text)
    return Checks(lines).configuration(found)


def amounts(written: Mapping[str, str] | None) -> dict[str, int]:
    """Return the amount of each resource: `vcore` in thousandths, other resources in whole units. Raise ValueError if
    an amount is invalid."""
    return {resource: _amount(resource, text) for resource, text in (written or {}).items()}


def fits(bound: Mapping[str, int], asked: Mapping[str, int]) -> bool:
    """Return whether every requested amount is within the bound of its resource. Resources without a bound are not
    checked."""
    return all(amount <= bound.get(resource, amount) for resource, amount in asked.items())


def least(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Return for each resource the smaller one of its two limits. If a resource has a limit in only one of the
    mappings, the result has this limit."""
    return {name: min(each[name] for each in (one, other) if name in each) for name in (*one, *other)}


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of the amounts, by resource."""
    found: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, 0) + amount
    return found


def percent(used: Mapping[str, int], bound: Mapping[str, int]) -> dict[str, int]:
    """Return the used percentage of each resource, rounded down. Resources with a bound of 0, or without a bound, are
    left out."""
    return {name: amount * 100 // bound[name] for name, amount in used.items() if bound.get(name)}


class Checks:
    """The checks of one configuration file. `_lines`: the line number of each value in the file."""

    def __init__(self, lines: Lines) -> None:
        self._lines, self._queues = lines, 0

    def configuration(self, found: YuniKornConfiguration) -> YuniKornConfiguration:
        """Return the configuration in the normal form in which YuniKorn applies it. Raise YuniKornConfigurationError if
        it is invalid."""
        names: set[str] = set()
        partitions = []
        for at, partition in enumerate(found.partitions):
            path: Path = ("partitions", at)
            name = (partition.name or DEFAULT_PARTITION).lower()
            if name in names:
                self._refuse((*path, "name"), f"the partition {name!r} is listed twice")
            names.add(name)
            partitions.append(self._partition(partition, path))
        return YuniKornConfiguration(partitions=tuple(partitions), checksum=found.checksum)

    def _partition(self, partition: QueuePartition, path: Path) -> QueuePartition:
        root, at = self._root(partition, path)
        self._branch(root, at)
        self._quotas(root, at, {})
        self._rules(partition, root, path)
        self._node_order(partition, (*path, "nodesortpolicy"))
        self._applications(root, at)
        self._resource_limits(root, at, {}, {})
        self._count_limits(root, at, {}, {})
        name = DEFAULT_PARTITION if partition.name.lower() in {"", DEFAULT_PARTITION} else partition.name
        return replace(partition, name=name, queues=(root,), limits=())

    def _root(self, partition: QueuePartition, path: Path) -> tuple[QueueBranch, Path]:
        """Return the queue `root` of a partition, and the path of its values in the file. If the file has no queue
        `root`, the queues that the file lists become the children of a new queue `root`."""
        at: Path = (*path, "queues")
        if partition.queues is None:
            self._refuse(path, "the partition has no queues; write at least `queues: [{name: root}]`")
        if len(partition.queues) == 1 and partition.queues[0].name.lower() == ROOT:
            root, at = replace(partition.queues[0], parent=True), (*at, 0)
        else:
            root = QueueBranch(name=ROOT, parent=True, queues=partition.queues)
        if root.resources.guaranteed is not None or root.resources.max is not None:
            self._refuse(
                (*at, "resources"), "the resources of root are those of all nodes: root must not set resources"
            )
        if partition.limits and root.limits and partition.limits != root.limits:
            self._refuse(
                (*path, "limits"),
                "the limits of the partition apply to root: they must not differ from the limits of root",
            )
        return replace(root, limits=root.limits or partition.limits), at

    # --- a queue by itself --------------------------------------------------------------------------------------------

    def _branch(self, queue: QueueBranch, path: Path) -> None:
        self._queues += 1
        if self._queues > MOST_QUEUES:
            self._refuse(path, f"more than {MOST_QUEUES} queues, which is the maximum of this scheduler")
        for name, acl in (("adminacl", queue.admin_acl), ("submitacl", queue.submit_acl)):
            if len(acl.split()) > 2:
                self._refuse((*path, name), f"{acl!r}: write users, one blank, and groups; separate names by commas")
        self._limits(queue, path)
        self._template(queue.child_template.resources, (*path, "childtemplate", "resources"))
        names: set[str] = set()
        for child, at in _below(queue, path):
            if not QUEUE_NAME.fullmatch(child.name):
                text = "the name of a queue has 1 to 64 letters, digits and any of _ : # / @ -, and no dot"
                self._refuse((*at, "name"), f"{child.name[:80]!r} is not a valid name: {text}")
            if child.name.lower() in names:
                self._refuse((*at, "name"), f"the queue {child.name.lower()!r} is listed twice")
            names.add(child.name.lower())
        for child, at in _below(queue, path):
            self._branch(child, at)

    def _template(self, said: Resources, path: Path) -> None:
        guaranteed = self._amounts(said.guaranteed, (*path, "guaranteed"))
        if not fits(self._amounts(said.max, (*path, "max")), guaranteed):
            self._refuse((*path, "guaranteed"), "more than the max of the child template")

    def _limits(self, queue: QueueBranch, path: Path) -> None:
        users: dict[str, None] = {}
        groups: dict[str, None] = {}
        for number, limit in enumerate(queue.limits):
            at: Path = (*path, "limits", number)
            if not limit.users and not limit.groups:
                self._refuse(at, "the limit names no users and no groups: name some")
            self._names("user", limit.users, _USER, users, (*at, "users"))
            self._names("group", limit.groups, _GROUP, groups, (*at, "groups"))
            if [*groups] == [ANYBODY]:
                text = (
                    "a limit for the group '*' alone would limit the whole queue: name another group, or set the "
                    "queue's max"
                )
                self._refuse((*at, "groups"), text)
            self._bounds(limit, queue, at)

    def _names(self, kind: str, names: Sequence[str], form: re.Pattern[str], seen: dict[str, None], path: Path) -> None:
        for at, name in enumerate(names):
            here = (*path, at)
            if name != ANYBODY and not form.fullmatch(name):
                self._refuse(here, f"{name[:80]!r} is not a valid name of a {kind}")
            if name in seen:
                self._refuse(here, f"the {kind} {name!r} has two limits in this queue")
            if ANYBODY in seen:
                self._refuse(here, f"the {kind} {name!r} is listed after '*', which must be the last")
            seen[name] = None

    def _bounds(self, limit: Limit, queue: QueueBranch, path: Path) -> None:
        most = self._amounts(limit.max_resources, (*path, "maxresources"))
        if most and not any(most.values()):
            self._refuse((*path, "maxresources"), "all amounts are 0: remove the field, or set an amount")
        if not limit.max_applications and not most:
            self._refuse(path, "the limit has no effect: set maxresources or maxapplications")
        if queue.max_applications and queue.max_applications < limit.max_applications:
            text = f"more than the maxapplications of the queue ({queue.max_applications})"
            self._refuse((*path, "maxapplications"), text)
        if queue.name != ROOT and not fits(self._amounts(queue.resources.max, path), most):
            self._refuse((*path, "maxresources"), f"more than the max of the queue {queue.name!r}")

    # --- down the tree ------------------------------------------------------------------------------------------------

    def _quotas(self, queue: QueueBranch, path: Path, above: Mapping[str, int]) -> Mapping[str, int]:
        """Return the guarantee of the queue. If the queue states no guarantee, return the sum of its children's
        guarantees. `above`: the maximum of its parent."""
        at: Path = (*path, "resources")
        guaranteed = self._amounts(queue.resources.guaranteed, (*at, "guaranteed"))
        most = self._amounts(queue.resources.max, (*at, "max"))
        if not fits(most, guaranteed):
            self._refuse((*at, "guaranteed"), f"more than the max of the queue {queue.name!r} and the queues above it")
        if not fits(above, most):
            self._refuse((*at, "max"), f"more than the max of the queues above the queue {queue.name!r}")
        most = least(most, above)
        together: dict[str, int] = {}
        for child, below in _below(queue, path):
            for resource, amount in self._quotas(child, below, most).items():
                together[resource] = together.get(resource, 0) + amount
        if not fits(guaranteed, together):
            self._refuse(
                (*at, "guaranteed"), f"less than the guarantees of the queue's children together ({_shown(together)})"
            )
        if not fits(most, together):
            text = (
                f"the guarantees of the children of {queue.name!r} together ({_shown(together)}) exceed the "
                "max of this queue"
            )
            self._refuse((*at, "max") if queue.resources.max else path, text)
        return guaranteed if any(guaranteed.values()) else together

    def _applications(self, queue: QueueBranch, path: Path) -> None:
        own = queue.max_applications
        for child, at in _below(queue, path):
            if own and child.max_applications > own:
                self._refuse((*at, "maxapplications"), f"more than the maxapplications of the queue above ({own})")
            if own and not child.max_applications:
                self._refuse(
                    at, f"the queue above has a maxapplications ({own}), so its child queues must have one, too"
                )
            self._applications(child, at)

    def _resource_limits(self, queue: QueueBranch, path: Path, users: ResourceBounds, groups: ResourceBounds) -> None:
        own_users, own_groups = dict(users), dict(groups)
        for number, limit in enumerate(queue.limits):
            at: Path = (*path, "limits", number, "maxresources")
            most = self._amounts(limit.max_resources, at)
            for names, known, own in ((limit.users, users, own_users), (limit.groups, groups, own_groups)):
                for name in names:
                    if not fits(known.get(name, known.get(ANYBODY, {})), most):
                        self._refuse(at, f"more than a limit in a queue above allows {name!r}")
                    own[name] = least(most, known.get(name, {}))
        for child, below in _below(queue, path):
            self._resource_limits(child, below, own_users, own_groups)

    def _count_limits(self, queue: QueueBranch, path: Path, users: CountBounds, groups: CountBounds) -> None:
        own_users, own_groups = dict(users), dict(groups)
        for number, limit in enumerate(queue.limits):
            at: Path = (*path, "limits", number)
            for names, known, own in ((limit.users, users, own_users), (limit.groups, groups, own_groups)):
                for name in names:
                    above = known.get(name, known.get(ANYBODY, 0))
                    if above and not 0 < limit.max_applications <= above:
                        text = f"a limit in a queue above allows {name!r} {above} applications: set at most this number"
                        self._refuse((*at, "maxapplications"), text)
                    own[name] = limit.max_applications
        for child, below in _below(queue, path):
            self._count_limits(child, below, own_users, own_groups)

    # --- placement ----------------------------------------------------------------------------------------------------

    def _rules(self, partition: QueuePartition, root: QueueBranch, path: Path) -> None:
        rules = [(rule, (*path, "placementrules", at)) for at, rule in enumerate(partition.placement_rules)]
        for rule, at in rules:
            for one, here in _chain(rule, at):
                self._rule(one, here)
        for rule, at in rules:
            fixed, dynamic = self._fixed_path(rule, at)
            if fixed:
                self._known(fixed.lower().split("."), dynamic, rule.create, root, at)

    def _rule(self, rule: PlacementRule, path: Path) -> None:
        if not _RULE.fullmatch(rule.name):
            self._refuse((*path, "name"), f"{rule.name!r} is not the name of a placement rule")
        self._filter(rule.filter, (*path, "filter"))

    def _filter(self, filter: Filter, path: Path) -> None:
        if filter.type.lower() not in {"", "allow", "deny"}:
            self._refuse((*path, "type"), f"{filter.type!r} is neither allow nor deny")
        for name, names, form in (("users", filter.users, _USER), ("groups", filter.groups, _GROUP)):
            if len(names) == 1 and not form.fullmatch(names[0]) and not _is_expression(names[0]):
                self._refuse((*path, name), f"{names[0]!r} is neither a name nor a regular expression")

    def _fixed_path(self, rule: PlacementRule, path: Path) -> tuple[str, bool]:
        """Return (path, dynamic). `path`: the full queue name that a chain of rules of the kind `fixed` forms, from the
        topmost rule down. `dynamic`: True if a rule of another kind continues this path."""
        found = ""
        for one, here in reversed(list(_chain(rule, path))):
            if one.name != "fixed":
                return found, True
            if one.value.startswith(ROOT) and found:
                self._refuse((*here, "value"), f"{one.value!r} is a full queue name, so the rule cannot have a parent")
            found = one.value if one.value.startswith(ROOT) else f"{found or ROOT}.{one.value}"
        return found, False

    def _known(self, names: Sequence[str], dynamic: bool, create: bool, root: QueueBranch, path: Path) -> None:
        """Check that the queue at the path of `fixed` rules exists or can be created. Check also that it is a parent if
        `dynamic` is set, and a leaf otherwise."""
        queues: tuple[QueueBranch, ...] = (root,)
        above: QueueBranch | None = None
        for at, name in enumerate(names):
            if above is not None and not above.queues:
                if not above.parent:
                    self._refuse(path, f"the queue {above.name!r} is a leaf: no queue can be created below it")
                queues = ()
            own = next((queue for queue in queues if queue.name == name), None)
            if own is None:
                if not create:
                    self._refuse(path, f"there is no queue {'.'.join(names[: at + 1])!r}, and `create` is false")
                return
            above, queues = own, own.queues
        if above is None:
            return
        if above.parent and not dynamic:
            self._refuse(path, f"{'.'.join(names)!r} has child queues: applications run only in leaf queues")
        if dynamic and not above.parent:
            self._refuse(path, f"{'.'.join(names)!r} is a leaf queue, so it cannot be the parent for another rule")

    def _node_order(self, partition: QueuePartition, path: Path) -> None:
        if partition.node_sort_policy.type not in _NODE_ORDERS:
            self._refuse((*path, "type"), f"{partition.node_sort_policy.type!r} is neither fair nor binpacking")
        for resource, weight in partition.node_sort_policy.resource_weights.items():
            if weight < 0:
                self._refuse((*path, "resourceweights", resource), "the weight is negative")

    # --- complaints ---------------------------------------------------------------------------------------------------

    def _amounts(self, written: Mapping[str, str] | None, path: Path) -> dict[str, int]:
        for resource, text in (written or {}).items():
            try:
                _amount(resource, text)
            except ValueError as error:
                self._refuse((*path, resource), str(error))
        return amounts(written)

    def _refuse(self, path: Path, text: str) -> NoReturn:
        raise YuniKornConfigurationError(line_of(self._lines, path), text)


# --- internal ---------------------------------------------------------------------------------------------------------


def _below(queue: QueueBranch, path: Path) -> list[tuple[QueueBranch, Path]]:
    # If the file has no root queue, `path` leads to the list of queues in the file, which are the children of the root.
    at = path if path[-1] == "queues" else (*path, "queues")
    return [(child, (*at, number)) for number, child in enumerate(queue.queues)]


def _chain(rule: PlacementRule, path: Path) -> list[tuple[PlacementRule, Path]]:
    """Return the rule, its parent rule, the parent rule of its parent rule, and so on."""
    found, one, at = [], rule, path
    while True:
        found.append((one, at))
        if one.parent is None:
            return found
        one, at = one.parent, (*at, "parent")


def _is_expression(text: str) -> bool:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error:
        return False
    return _SPECIAL.search(text) is not None


def _amount(resource: str, text: str) -> int:
    found = _QUANTITY.fullmatch(text)
    milli = resource == "vcore"
    digits, unit = found.groups(default="") if found and len(text) <= 40 else ("", "")
    if not digits or unit not in ({*_UNITS, "m"} if milli else _UNITS):
        rule = "whole numbers with k M G T P E or Ki to Ei" + (", or m for thousandths" if milli else "")
        raise ValueError(f"{text[:40]!r} is not an amount of {resource}: write {rule}, without fractions")
    amount = int(digits) * (1 if unit == "m" else _UNITS[unit] * (1000 if milli else 1))
    if amount > _MOST:
        raise ValueError(f"{text[:40]!r} is too large for {resource}")
    return amount


def _shown(found: Mapping[str, int]) -> str:
    return ", ".join(f"{resource} {amount}{'m' if resource == 'vcore' else ''}" for resource, amount in found.items())
