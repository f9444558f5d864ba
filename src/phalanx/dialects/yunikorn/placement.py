"""Choose the queue of an application by YuniKorn's placement rules, and create that queue if the rule has `create`.

*Placement rules.* The rules of a partition are tried in order. The application is placed by the first rule that returns
a leaf queue to which the user may submit. A rule with `create` may return a queue that does not exist yet, if the queue
above it is not a leaf. If no rule matches, the application is placed in `root.default`; without that queue it is in no
queue. Two errors reject the application without trying further rules: a parent rule that returns a leaf, and a rule
that would create a queue below a leaf or with an invalid name.

*Created queues.* A created queue exists as long as an application is in it. A created leaf has the settings of the
nearest child template above it. Annotations of the application's namespace may set a quota, a guarantee and a maximum
number of applications, which replace those of the template. If a rule also creates queues above the leaf, these have no
limits of their own.

*ACLs* decide whether a user may submit to a queue. An ACL lists users and groups, `user1,user2 group1,group2`. An ACL
`*` admits every user, and an empty ACL admits no user. A user may submit to a queue if the `submitacl` or the
`adminacl` of that queue, or of any queue above it, admits the user. So without any ACL no user may submit to any queue,
and `submitacl: '*'` at the root admits all users to all queues.

Source: pkg/scheduler/placement, pkg/scheduler/objects and pkg/common/security/acl.go of apache/yunikorn-core, and
pkg/common/utils of apache/yunikorn-k8shim (1.9)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import re2

from phalanx.client.quantity import QuantityError, amount
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Becomes, Use
from phalanx.dialects.yunikorn.checks import QUEUE_NAME
from phalanx.dialects.yunikorn.configuration import ROOT, ChildTemplate, Filter, PlacementRule, QueueBranch, Resources
from phalanx.dialects.yunikorn.queues import properties_of
from phalanx.errors import PhalanxError
from phalanx.model.pod import MAX_AMOUNT

_SAID = "yunikorn.apache.org/"
_QUOTA, _GUARANTEED, _MOST_APPS = (f"{_SAID}namespace.{word}" for word in ("quota", "guaranteed", "maxApps"))
_OLD_QUOTA = {"cpu": f"{_SAID}namespace.max.cpu", "memory": f"{_SAID}namespace.max.memory"}
_PARENT = f"{_SAID}parentqueue"
_NO_TEMPLATE = ChildTemplate()

NAMESPACE: Mapping[str, Use] = {
    _PARENT: Becomes("Job.queue", "placement rules read it as the tag `namespace.parentqueue`"),
    _QUOTA: Becomes(
        "Quota.limit",
        "the quota of the queue that a placement rule creates; the older annotations "
        "`namespace.max.cpu` and `namespace.max.memory` are read, too",
    ),
    _GUARANTEED: Becomes("Quota.guaranteed", "the guarantee of the queue that a placement rule creates"),
    _MOST_APPS: Becomes(
        "Limits.running", "the maximum number of running jobs in the queue that a placement rule creates"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceTags:
    """YuniKorn's annotations of a namespace. `parent`: the queue below which placement rules with the value
    `namespace.parentqueue` place applications. `most`: the quota of a created queue. `guaranteed`: its guarantee.
    `most_applications`: its maximum number of running applications; 0 if there is none."""

    parent: str = ""
    most: Mapping[str, str] | None = None
    guaranteed: Mapping[str, str] | None = None
    most_applications: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeQueues:
    """The queues that are created for an application. `branch`: the topmost created queue, with the other created
    queues below it. `above`: the full name of its parent, which is a queue of the configuration. `properties`: the
    properties of that parent."""

    branch: QueueBranch
    above: str
    properties: Mapping[str, str]


def namespace_tags(namespace: Object) -> NamespaceTags:
    """Return YuniKorn's annotations of a namespace. Invalid values are ignored."""
    notes = namespace["metadata"].get("annotations") or {}
    old = {resource: notes[key] for resource, key in _OLD_QUOTA.items() if key in notes}
    apps = str(notes.get(_MOST_APPS, ""))
    return NamespaceTags(
        parent=str(notes.get(_PARENT, "")),
        most=_quantities(notes.get(_QUOTA)) or _resources(old),
        guaranteed=_quantities(notes.get(_GUARANTEED)),
        most_applications=int(apps) if apps.isascii() and apps.isdigit() and len(apps) < 10 else 0,
    )


def made(root: QueueBranch, name: str, tags: NamespaceTags) -> MadeQueues:
    """Return the queues to create for the queue with the full name `name`, which the configuration does not contain.
    `root`: the root queue of the configuration. `tags`: the annotations of the application's namespace."""
    parts = name.split(".")
    branch, properties, template, at = root, properties_of(root, {}), root.child_template, 1
    while (below := _child(branch, parts[at])) is not None:
        branch, at = below, at + 1
        properties = properties_of(branch, properties)
        template = branch.child_template if branch.child_template != _NO_TEMPLATE else template
    found = _leaf(parts[-1], template, tags)
    for part in reversed(parts[at:-1]):
        found = QueueBranch(name=part, parent=True, queues=(found,))
    return MadeQueues(branch=found, above=".".join([ROOT, *parts[1:at]]), properties=properties)


# --- internal ---------------------------------------------------------------------------------------------------------


def _child(branch: QueueBranch, name: str) -> QueueBranch | None:
    return next((queue for queue in branch.queues if queue.name.lower() == name), None)


def _leaf(name: str, template: ChildTemplate, tags: NamespaceTags) -> QueueBranch:
    said = Resources(
        guaranteed=dict(tags.guaranteed or template.resources.guaranteed or {}) or None,
        max=dict(tags.most or template.resources.max or {}) or None,
    )
    return QueueBranch(
        name=name,
        resources=said,
        max_applications=tags.most_applications or template.max_applications,
        properties=template.properties,
    )


def _quantities(text: object) -> Mapping[str, str] | None:
    """Return the amounts in an annotation, which is a JSON mapping of resources to Kubernetes quantities; None if the
    annotation is invalid or empty."""
    try:
        return _resources(msgspec.json.decode(str(text or "{}"), type=dict[str, str]))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _resources(said: Mapping[str, object]) -> Mapping[str, str] | None:
    """Return Kubernetes quantities as the amounts of a YuniKorn configuration; None if a quantity is invalid or there
    is none."""
    try:
        found = {resource: amount(resource, str(text)) for resource, text in said.items()}
    except QuantityError:
        return None
    if not all(0 <= each <= MAX_AMOUNT for each in found.values()):
        return None
    return {"vcore" if key == "cpu" else key: f"{n}m" if key == "cpu" else str(n) for key, n in found.items()} or None


_ANYBODY = "*"


@dataclass(frozen=True, slots=True)
class Acl:
    """A parsed ACL: the names of the users and groups that it admits."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def admits(self, user: str, groups: Sequence[str]) -> bool:
        """Return whether the ACL lists the user, one of the groups, or `*`."""
        everybody = _ANYBODY in self.users or _ANYBODY in self.groups
        return everybody or user in self.users or not self.groups.isdisjoint(groups)


Access = Mapping[str, tuple[Acl, ...]]  # full name of a queue -> its ACLs and those of all queues above it


def read_acl(text: str) -> Acl:
    """Return a parsed ACL. A blank separates the users from the groups, so an ACL that begins with a blank lists only
    groups."""
    users, _, groups = text.rstrip().partition(" ")
    return Acl(*(frozenset(name for name in part.split(",") if name) for part in (users, groups.strip())))


def access_of(roots: Sequence[QueueBranch]) -> Access:
    """Return for each queue the ACLs of the queue and of all queues above it."""
    return dict(entry for root in roots for entry in _access(root, "", ()))


def may_submit(access: Access, queue: str, user: str, groups: Sequence[str]) -> bool:
    """Return whether the user may submit to a queue. `queue`: the full name of the queue. `groups`: the user's
    groups."""
    return any(acl.admits(user, groups) for acl in access.get(queue, ()))


def _access(queue: QueueBranch, prefix: str, above: tuple[Acl, ...]) -> Iterator[tuple[str, tuple[Acl, ...]]]:
    name = f"{prefix}{queue.name}".lower()
    here = (*above, read_acl(queue.submit_acl), read_acl(queue.admin_acl))
    yield name, here
    for child in queue.queues:
        yield from _access(child, f"{name}.", here)


MOST_LEVELS = 20  # the maximum depth of a created queue; the name in a label of a pod may have any number of dots
_SHOWN = 256  # messages show at most this many characters of a name from a pod
_DOT, _DEFAULT = "_dot_", f"{ROOT}.default"
_SPECIAL = re.compile(r"[\^$*+?()\[{}|]")
_PROVIDED = PlacementRule(name="provided")


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The fields of an application that placement rules use. `queue`: the queue that its pods name. `tags`: the
    application's tags in YuniKorn, for example `namespace`."""

    queue: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementTree:
    """The queues of a configuration. `leaves`: full name of a queue -> whether the queue is a leaf. `access`: the ACLs
    of each queue."""

    leaves: Mapping[str, bool] = field(default_factory=dict)
    access: Access = field(default_factory=dict)

    def nearest(self, name: str) -> str:
        """Return the queue of that full name if it exists, or else the lowest existing queue above it. The search goes
        from the root down, so its cost does not grow with the number of dots in the name."""
        found, end = "", name.find(".")
        while end >= 0 and name[:end] in self.leaves:
            found, end = name[:end], name.find(".", end + 1)
        return name if name in self.leaves else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The result of the placement rules for an application. `queue`: the full name of its queue, in lower case; empty
    if it has no queue. `fault`: the reason why it has no queue."""

    queue: str = ""
    fault: str = ""


class _Refused(PhalanxError):
    """An error of a placement rule that rejects the application without trying further rules."""


def tree_of(roots: Sequence[QueueBranch]) -> PlacementTree:
    """Return the queues of a configuration in the form that the placement rules use."""
    return PlacementTree(leaves=dict(_leaves(roots, "")), access=access_of(roots))


def not_to_make(name: str, tree: PlacementTree) -> str:
    """Return the reason why no rule may create a queue with the full name `name`; empty if a rule may create it."""
    if name.count(".") >= MOST_LEVELS:
        return f"it has more than {MOST_LEVELS} levels"
    if wrong := [part for part in name.split(".") if not QUEUE_NAME.fullmatch(part)]:
        return f"{wrong[0][:_SHOWN]!r} is not a valid name; write 1 to 64 letters, digits and any of _ : # / @ -"
    if tree.leaves.get(above := tree.nearest(name), True):
        return f"the queue {above or ROOT!r} above it is a leaf, or does not exist"
    return ""


def place(rules: Sequence[PlacementRule], application: Application, tree: PlacementTree) -> Placed:
    """Return the queue that the placement rules choose for an application. Without any rule, the application is placed
    in the queue that it names (rule `provided`)."""
    faults = []
    try:
        for rule in rules or (_PROVIDED,):
            found = _by(rule, application, tree)
            if found and not (fault := _objection(found, application, tree)):
                return Placed(queue=found)
            faults += [fault] if found else []
    except _Refused as error:
        return Placed(fault=str(error))
    if _DEFAULT in tree.leaves and not (fault := _objection(_DEFAULT, application, tree)):
        return Placed(queue=_DEFAULT)
    return Placed(fault=faults[0] if faults else "")


# --- internal ---------------------------------------------------------------------------------------------------------


def _leaves(queues: Sequence[QueueBranch], prefix: str) -> list[tuple[str, bool]]:
    found = []
    for queue in queues:
        name = f"{prefix}{queue.name}".lower()
        found += [(name, not (queue.queues or queue.parent)), *_leaves(queue.queues, f"{name}.")]
    return found


def _by(rule: PlacementRule, application: Application, tree: PlacementTree) -> str:
    """Return the full name of the queue that a rule chooses; empty if the rule does not match the application. If the
    rule has `create`, the queue may not exist yet."""
    name, kind = _named(rule, application).lower(), rule.name.lower()
    if not name or not _passes(rule.filter, application):
        return ""
    if not name.startswith(ROOT if kind == "fixed" else f"{ROOT}."):
        above = ROOT
        if rule.parent is not None and not (above := _by(rule.parent, application, tree)):
            return ""
        if tree.leaves.get(above):
            raise _Refused(
                f"the rule {rule.parent.name if rule.parent else kind!r} returns {above} as a parent, "
                "which is a leaf queue"
            )
        name = f"{above}.{name if kind == 'fixed' else name.replace('.', _DOT)}"
    if name in tree.leaves:
        return name
    if not rule.create:
        return ""
    if fault := not_to_make(name, tree):
        raise _Refused(f"the queue {name[:_SHOWN]!r} cannot be created: {fault}")
    return name


def _objection(name: str, application: Application, tree: PlacementTree) -> str:
    """Return the reason why the application may not run in the queue `name`, which a rule chose; empty if it may."""
    if name in tree.leaves and not tree.leaves[name]:
        return f"{name} may have child queues: applications run only in leaf queues"
    if not may_submit(tree.access, tree.nearest(name), application.user, application.groups):
        return (
            f"the user {application.user[:_SHOWN]!r} may not submit to {name}: no submitacl or adminacl of it, "
            "or of a queue above it, names the user or one of its groups"
        )
    return ""


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


def _passes(filter: Filter, application: Application) -> bool:
    if not filter.users and not filter.groups:
        return True
    listed = _in(filter.users, (application.user,)) or _in(filter.groups, application.groups)
    return listed != (filter.type.lower() == "deny")


def _in(names: Sequence[str], asked: Sequence[str]) -> bool:
    if len(names) == 1 and _SPECIAL.search(names[0]):
        return any(re2.search(names[0], one) is not None for one in asked)
    return any(one in names for one in asked)
