"""Queues that placement rules create; such a queue exists as long as an application is in it.

A created leaf has the settings of the nearest child template above it. The quota, the guarantee and the maximum of
applications in the annotations of its namespace take precedence over the template. Queues created between the leaf and
a queue of the configuration have no bounds of their own.

Source: pkg/scheduler/objects of apache/yunikorn-core and pkg/common/utils of apache/yunikorn-k8shim (1.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from phalanx.client.quantity import QuantityError, amount
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.frame.fields import Becomes, Use
from phalanx.dialects.yunikorn.configuration import ROOT, ChildTemplate, QueueBranch, Resources
from phalanx.dialects.yunikorn.queues import properties_of
from phalanx.model.pod import MAX_AMOUNT

_SAID = "yunikorn.apache.org/"
_QUOTA, _GUARANTEED, _MOST_APPS = (f"{_SAID}namespace.{word}" for word in ("quota", "guaranteed", "maxApps"))
_OLD_QUOTA = {"cpu": f"{_SAID}namespace.max.cpu", "memory": f"{_SAID}namespace.max.memory"}
_PARENT = f"{_SAID}parentqueue"
_NO_TEMPLATE = ChildTemplate()

NAMESPACE: Mapping[str, Use] = {
    _PARENT: Becomes("Job.queue", "the tag `namespace.parentqueue` of placement rules"),
    _QUOTA: Becomes("Quota.limit", "for the queue that a rule creates; `namespace.max.cpu` and `.max.memory` too"),
    _GUARANTEED: Becomes("Quota.guaranteed", "for the queue that a rule creates"),
    _MOST_APPS: Becomes("Limits.running", "for the queue that a rule creates"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceTags:
    """The annotations of a namespace. `parent`: the queue that it names as the parent for placement rules."""

    parent: str = ""
    most: Mapping[str, str] | None = None
    guaranteed: Mapping[str, str] | None = None
    most_applications: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeQueues:
    """The topmost queue that is created for an application, with the created queues below it. `above`: the full name
    of its parent, a queue of the configuration. `properties`: the properties of that parent."""

    branch: QueueBranch
    above: str
    properties: Mapping[str, str]


def namespace_tags(namespace: Object) -> NamespaceTags:
    """Parse the annotations of a namespace; invalid values are ignored."""
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
    """Return the queues to create so that the queue `name`, which the configuration does not contain, exists."""
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


# --- inside -----------------------------------------------------------------------------------------------------------


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


def _quantities(text: Any) -> Mapping[str, str] | None:
    """Parse the amounts of an annotation in JSON; None: invalid, or empty."""
    try:
        return _resources(msgspec.json.decode(str(text or "{}"), type=dict[str, str]))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _resources(said: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Translate Kubernetes quantities into the amounts of a YuniKorn configuration; None: invalid, or empty."""
    try:
        found = {resource: amount(resource, str(text)) for resource, text in said.items()}
    except QuantityError:
        return None
    if not all(0 <= each <= MAX_AMOUNT for each in found.values()):
        return None
    return {"vcore" if key == "cpu" else key: f"{n}m" if key == "cpu" else str(n) for key, n in found.items()} or None
