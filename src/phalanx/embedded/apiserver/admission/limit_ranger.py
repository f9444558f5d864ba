"""The plug-in LimitRanger: it adds the defaults of limit ranges to a pod, and refuses pods that exceed the limits of a
limit range.

Source: k8s.io/kubernetes/plugin/pkg/admission/limitranger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import forbidden
from phalanx.embedded.apimachinery.schema import quantity
from phalanx.embedded.apiserver.registry.kinds import checks

Amounts = Mapping[str, str]

ANNOTATION = "kubernetes.io/limit-ranger"


def apply(resource: Resource, obj: Object, ranges: Sequence[Object]) -> None:
    """Set the defaults of a pod, then check the object against all limits. Raises StatusError 403."""
    items = [item for one in ranges for item in one["spec"].get("limits") or ()]
    if resource.plural == "pods":
        _defaults(obj, [item for item in items if item.get("type") == "Container"])
        problems = [text for item in items for text in _pod_problems(obj["spec"], item)]
    else:
        asked = (obj["spec"].get("resources") or {}).get("requests") or {}
        claims = [item for item in items if item.get("type") == "PersistentVolumeClaim"]
        problems = [text for item in claims for text in _bounds(item, asked, {}, only_requests=True)]
    if problems:
        problems = list(dict.fromkeys(problems))
        why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise forbidden(resource.group, resource.plural, obj["metadata"].get("name", ""), why)


def _defaults(pod: Object, items: Iterable[Mapping[str, object]]) -> None:
    notes: list[str] = []
    for item in items:
        for key, sort in (("containers", "container"), ("initContainers", "init container")):
            for container in pod["spec"].get(key) or ():
                notes += _fill(container, item, sort)
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def _fill(container: Object, item: Mapping[str, Any], sort: str) -> list[str]:
    """Set the defaults of a container. Return texts that name the resources whose defaults were set, such as `cpu,
    memory request for container c`."""
    notes = []
    resources = container.setdefault("resources", {})
    for key, source, word in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
        given = resources.get(key) or {}
        missing = {name: amount for name, amount in (item.get(source) or {}).items() if name not in given}
        if missing:
            resources[key] = given | missing
            notes.append(f"{', '.join(sorted(missing))} {word} for {sort} {container['name']}")
    return notes


def _pod_problems(spec: Object, item: Mapping[str, object]) -> list[str]:
    if item.get("type") == "Container":
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        parts = [one.get("resources") or {} for one in containers]
        return [text for part in parts for text in _bounds(item, part.get("requests") or {}, part.get("limits") or {})]
    if item.get("type") == "Pod":
        return _bounds(item, checks.total(spec, "requests"), checks.total(spec, "limits"))
    return []


def _bounds(item: Mapping[str, Any], requests: Amounts, limits: Amounts, *, only_requests: bool = False) -> list[str]:
    sort, found = item.get("type", ""), []
    for name, low in (item.get("min") or {}).items():
        text = f"minimum {name} usage per {sort} is {low}"
        asked, allowed = requests.get(name), limits.get(name)
        if asked is None:
            found.append(f"{text}.  No request is specified")
        elif quantity.of(asked) < quantity.of(low):
            found.append(f"{text}, but request is {asked}")
        elif allowed is not None and quantity.of(allowed) < quantity.of(low):
            found.append(f"{text}, but limit is {allowed}")
    for name, high in (item.get("max") or {}).items():
        text = f"maximum {name} usage per {sort} is {high}"
        asked = requests.get(name)
        allowed = asked if only_requests else limits.get(name)
        if allowed is None:
            found.append(f"{text}.  No limit is specified")
        elif quantity.of(allowed) > quantity.of(high):
            found.append(f"{text}, but {'request' if only_requests else 'limit'} is {allowed}")
        elif asked is not None and quantity.of(asked) > quantity.of(high):
            found.append(f"{text}, but request is {asked}")
    for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
        found += _ratio(name, ratio, sort, requests.get(name), limits.get(name))
    return found


def _ratio(name: str, ratio: str, sort: str, asked: str | None, allowed: str | None) -> list[str]:
    text = f"{name} max limit to request ratio per {sort} is {ratio}"
    if asked is None or quantity.of(asked) == 0:
        return [f"{text}, but no request is specified or request is 0"]
    if allowed is None or quantity.of(allowed) == 0:
        return [f"{text}, but no limit is specified or limit is 0"]
    actual = quantity.of(allowed) / quantity.of(asked)
    if actual > quantity.of(ratio) / quantity.NANO:
        return [f"{text}, but provided ratio is {actual:f}"]
    return []
