"""Which queue an application gets: the placement rules of a partition, tried in order.

The first rule that gives a queue wins. Where a rule would make a queue, the application is in the queue that it would
have been made in: jobs may be in any queue here, and no queue is made by a job. After the last rule `root.default`
takes it, if it is there; else it has no queue.

Source: pkg/scheduler/placement of apache/yunikorn-core (1.9).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import re2

from phalanx.dialects.yunikorn.configuration import ROOT, Filter, PlacementRule

_DOT, _DEFAULT = "_dot_", f"{ROOT}.default"
_SPECIAL = re.compile(r"[\^$*+?()\[{}|]")
_PROVIDED = PlacementRule(name="provided")


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application, as placement rules look at it. `tags`: `namespace` and others, by name."""

    queue: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str]


def place(rules: Sequence[PlacementRule], application: Application, queues: Collection[str]) -> str:
    """Return the full name of its queue, in lower case; empty: none. `queues`: the full names of those there are."""
    for rule in rules or (_PROVIDED,):
        if found := _by(rule, application, queues):
            return found
    return _DEFAULT if _DEFAULT in queues else ""


# --- inside -----------------------------------------------------------------------------------------------------------


def _by(rule: PlacementRule, application: Application, queues: Collection[str]) -> str:
    """The queue that the rule gives; empty: it does not match."""
    name = _named(rule, application).lower()
    if not name or not _passes(rule.filter, application):
        return ""
    if not name.startswith(f"{ROOT}."):
        above = ROOT
        if rule.parent is not None and not (above := _by(rule.parent, application, queues)):
            return ""
        name = f"{above}.{name if rule.name.lower() == 'fixed' else name.replace('.', _DOT)}"
    if name in queues:
        return name
    return _nearest(name, queues) if rule.create else ""


def _named(rule: PlacementRule, application: Application) -> str:
    match rule.name.lower():
        case "provided":
            return application.queue
        case "user":
            return application.user
        case "fixed":
            return rule.value
        case "tag":
            return application.tags.get(rule.value.lower(), "")
    return ""


def _nearest(name: str, queues: Collection[str]) -> str:
    """The deepest queue above that name. From the root down: anybody may ask for a hundred thousand levels."""
    found, end = "", name.find(".")
    while end >= 0 and name[:end] in queues:
        found, end = name[:end], name.find(".", end + 1)
    return found


def _passes(filter: Filter, application: Application) -> bool:
    if not filter.users and not filter.groups:
        return True
    listed = _in(filter.users, (application.user,)) or _in(filter.groups, application.groups)
    return listed != (filter.type.lower() == "deny")


def _in(names: Sequence[str], asked: Sequence[str]) -> bool:
    if len(names) == 1 and _SPECIAL.search(names[0]):
        return any(re2.search(names[0], one) is not None for one in asked)
    return any(one in names for one in asked)
