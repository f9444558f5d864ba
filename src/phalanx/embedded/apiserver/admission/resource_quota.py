"""ResourceQuota admission: refuse a write if the usage of the namespace would then exceed one of its quotas.

Admission does not read the usage from the quota's field `status.used`, which may be out of date. At each create in a
namespace with a quota, it takes the numbers of objects from the store's counts (`HeldQuota`). It sums up the amounts of
pods (cpu, memory, ephemeral storage, extended resources), of volume claims (storage, in total and for each class) and
of services (load balancers, node ports). So the usage is always exact. In a namespace without a quota nothing is
computed. For an update, only the amounts that it adds are checked.

Phalanx adds two resource names for quotas. They limit the objects of all kinds in the namespace together.
`phalanx.dev/objects` is the number of objects other than Events; `count/events` limits the Events. `phalanx.dev/bytes`
is the size of all objects as JSON.

Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota, pkg/quota/v1/evaluator/core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import forbidden, qualified
from phalanx.embedded.apimachinery.schema import quantity
from phalanx.embedded.apiserver.registry.kinds import checks
from phalanx.embedded.apiserver.registry.kinds.checks import total

Key = tuple[str, str]  # (group, plural)
Amounts = Mapping[str, int]  # the name of a resource in a quota -> the amount in billionths

PLAIN = ("cpu", "memory", "ephemeral-storage")
OBJECTS, BYTES = "phalanx.dev/objects", "phalanx.dev/bytes"
_EVENTS, _PODS, _CLAIMS, _SERVICES = ("", "events"), ("", "pods"), ("", "persistentvolumeclaims"), ("", "services")
_CLASS = "volume.beta.kubernetes.io/storage-class"  # the older annotation that names the storage class
COUNTED = frozenset(
    {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQuota:
    """The number and the size of the objects in a namespace, including objects that are not on the disk yet. `objects`:
    the number of objects of each kind. `size_bytes`: the size of all objects."""

    objects: Mapping[Key, int]
    size_bytes: int

    def amounts(self) -> dict[str, int]:
        """Return the amount of each resource, under the name that a quota uses for it. The unit is a billionth."""
        found = {OBJECTS: 0, BYTES: self.size_bytes * quantity.NANO}
        for (group, plural), count in self.objects.items():
            found[f"count/{qualified(plural, group)}"] = count * quantity.NANO
            if not group and plural in COUNTED:
                found[plural] = count * quantity.NANO
            if (group, plural) != _EVENTS:
                found[OBJECTS] += count * quantity.NANO
        found.pop("pods", None)  # unlike `count/pods`, the resource `pods` does not count pods that have ended
        return found


def enforce(
    resource: Resource,
    obj: Object,
    quotas: Sequence[Object],
    held: HeldQuota,
    objects_of: Callable[[], Iterable[Object]],
    old: Object | None = None,
) -> None:
    """Refuse a write that exceeds a quota. `held`: the numbers of objects and bytes in the namespace. `objects_of`:
    returns the namespace's objects of the same kind. `old`: the object before an update; None for a create. Raises
    StatusError 403."""
    whole, before = usage(resource, obj), usage(resource, old) if old is not None else {}
    asked = {name: amount - before.get(name, 0) for name, amount in whole.items()}
    if old is None and any(BYTES in (quota["spec"].get("hard") or {}) for quota in quotas):
        asked[BYTES] = _size(obj)
    for quota in quotas:
        if not _in_scope(quota, resource, obj):
            continue
        _must_specify(resource, obj, quota, whole)
        hard = {name: amount for name, amount in (quota["spec"].get("hard") or {}).items() if asked.get(name, 0) > 0}
        if not hard:
            continue
        used = _used(quota, resource, hard.keys(), held, objects_of)
        over = [name for name in hard if asked[name] + used.get(name, 0) > quantity.of(hard[name])]
        if over:
            raise _exceeded(resource, obj, quota, sorted(over), asked, used)


def enforce_growth(resource: Resource, obj: Object, old: Object, quotas: Iterable[Object], held: HeldQuota) -> None:
    """Check that a change does not exceed a quota of bytes. A change that adds no bytes is always allowed. Raises
    StatusError 403."""
    for quota in quotas:
        limit = (quota["spec"].get("hard") or {}).get(BYTES)
        if limit is None or not _in_scope(quota, resource, obj):
            continue
        asked, used = _size(obj) - _size(old), held.size_bytes * quantity.NANO
        if asked > 0 and asked + used > quantity.of(limit):
            raise _exceeded(resource, obj, quota, [BYTES], {BYTES: asked}, {BYTES: used})


def total_usage(
    quota: Object, held: HeldQuota, objects_of: Callable[[Key], Iterable[tuple[Resource, Object]]]
) -> dict[str, str]:
    """Return `status.used` of a quota. `objects_of`: returns the objects of a kind in the quota's namespace."""
    hard = quota["spec"].get("hard") or {}
    found = {} if _scoped(quota) else held.amounts()
    if any(name not in found and not name.startswith("count/") for name in hard):
        objects = (one for key in (_PODS, _CLAIMS, _SERVICES) for one in objects_of(key))
        counted = (usage(*one) for one in objects if _counts(*one) and _in_scope(quota, *one))
        found = _sum(counted) | found
    return {name: quantity.printed(found.get(name, 0), quantity.parse(limit)[1]) for name, limit in hard.items()}


def _used(
    quota: Object, resource: Resource, names: Iterable[str], held: HeldQuota, objects_of: Callable[[], Iterable[Object]]
) -> Amounts:
    known = {} if _scoped(quota) else held.amounts()
    if all(name in known or name.startswith("count/") for name in names):
        return known
    counted = (one for one in objects_of() if _counts(resource, one) and _in_scope(quota, resource, one))
    return _sum(usage(resource, one) for one in counted) | known


def _size(obj: Object) -> int:
    return len(msgspec.json.encode(obj)) * quantity.NANO


def usage(resource: Resource, obj: Object) -> dict[str, int]:
    """Return the amounts that the object uses, for all resources that a quota can limit, except for bytes."""
    group, plural = resource.key
    found = {f"count/{qualified(plural, group)}": quantity.NANO}
    if resource.key != _EVENTS:
        found[OBJECTS] = quantity.NANO
    if not group and plural in COUNTED:
        found[plural] = quantity.NANO
    if resource.key == _PODS:
        found |= _pod_usage(obj["spec"])
    elif resource.key == _CLAIMS:
        found |= _claim_usage(obj)
    elif resource.key == _SERVICES:
        found |= _service_usage(obj["spec"])
    return found


def _claim_usage(claim: Object) -> dict[str, int]:
    """Return the amounts that a volume claim uses: its storage as part of the total, and the storage and the count of
    claims of its storage class."""
    spec = claim["spec"]
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
    found = {"requests.storage": quantity.of(size)}
    if name := (claim["metadata"].get("annotations") or {}).get(_CLASS) or spec.get("storageClassName"):
        of_class = f"{name}.storageclass.storage.k8s.io"
        found |= {
            f"{of_class}/requests.storage": found["requests.storage"],
            f"{of_class}/persistentvolumeclaims": quantity.NANO,
        }
    return found


def _service_usage(spec: Object) -> dict[str, int]:
    ports, sort = spec.get("ports") or (), spec.get("type")
    balanced = sort == "LoadBalancer"
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [one for one in ports if one.get("nodePort")]
    node_ports = len(ports) if balanced or sort == "NodePort" else 0
    return {
        "services.nodeports": node_ports * quantity.NANO,
        "services.loadbalancers": balanced * quantity.NANO,
    }


def _pod_usage(spec: Object) -> dict[str, int]:
    found: dict[str, int] = {}
    for which in ("requests", "limits"):
        for name, amount in total(spec, which).items():
            nano = quantity.of(amount)
            if name in PLAIN:
                found[f"{which}.{name}"] = nano
                if which == "requests":
                    found[name] = nano
            elif which == "requests" and (checks.is_extended(name) or name.startswith("hugepages-")):
                found[f"requests.{name}"] = nano
    return found


def _must_specify(resource: Resource, obj: Object, quota: Object, asked: Amounts) -> None:
    """Refuse a pod that states no request (or limit) of cpu or memory although the quota limits this amount."""
    if resource.key != _PODS:
        return
    named = {f"{which}.{name}" for which in ("requests", "limits") for name in PLAIN[:2]} | set(PLAIN[:2])
    missing = sorted(name for name in quota["spec"].get("hard") or {} if name in named and name not in asked)
    if missing:
        places = ",".join(one["name"] for one in obj["spec"].get("containers") or ())
        listed = "; ".join(f"{name} for: {places}" for name in missing)
        why = f"failed quota: {quota['metadata']['name']}: must specify {listed}"
        raise forbidden(resource.group, resource.plural, obj["metadata"].get("name", ""), why)


def _counts(resource: Resource, obj: Object) -> bool:
    """Return True if the object counts for quotas. All objects do, except pods that have ended."""
    return resource.key != _PODS or (obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _scoped(quota: Object) -> bool:
    return bool(quota["spec"].get("scopes") or quota["spec"].get("scopeSelector"))


def is_for_class(quota: Object, resource: Resource, obj: Object) -> bool:
    """Return True if the scope selector of the quota names the priority class of the pod, and the quota counts the
    pod."""
    selector = (quota["spec"].get("scopeSelector") or {}).get("matchExpressions") or ()
    named = any(one.get("scopeName") == "PriorityClass" and one.get("operator") == "In" for one in selector)
    return named and _in_scope(quota, resource, obj)


def _in_scope(quota: Object, resource: Resource, obj: Object) -> bool:
    """Return True if the scopes of the quota include the object. A quota with scopes counts only some pods."""
    if resource.key != _PODS:
        return not _scoped(quota)
    spec = obj["spec"]
    best_effort = not any(name in usage(resource, obj) for name in ("cpu", "memory", "limits.cpu", "limits.memory"))
    truths = {
        "Terminating": spec.get("activeDeadlineSeconds") is not None,
        "NotTerminating": spec.get("activeDeadlineSeconds") is None,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "PriorityClass": bool(spec.get("priorityClassName")),
    }
    selector = (quota["spec"].get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(truths.get(scope, False) for scope in quota["spec"].get("scopes") or ()) and all(
        _selected(one, truths, spec) for one in selector
    )


def _selected(one: Object, truths: Mapping[str, bool], spec: Object) -> bool:
    scope, values = one.get("scopeName", ""), one.get("values") or ()
    match one.get("operator"):
        case "In":
            return scope == "PriorityClass" and spec.get("priorityClassName") in values
        case "NotIn":
            return scope == "PriorityClass" and spec.get("priorityClassName") not in values
        case "DoesNotExist":
            return not truths.get(scope, False)
    return truths.get(scope, False)


def _sum(parts: Iterable[Amounts]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, 0) + amount
    return found


def _exceeded(
    resource: Resource, obj: Object, quota: Object, over: list[str], asked: Amounts, used: Amounts
) -> Exception:
    hard = quota["spec"]["hard"]

    def listed(amounts: Mapping[str, str]) -> str:
        return ",".join(f"{name}={amounts[name]}" for name in over)

    def shown(amounts: Amounts) -> dict[str, str]:
        return {name: quantity.printed(amounts.get(name, 0), quantity.parse(hard[name])[1]) for name in over}

    why = (
        f"exceeded quota: {quota['metadata']['name']}, requested: {listed(shown(asked))}, "
        f"used: {listed(shown(used))}, limited: {listed(hard)}"
    )
    return forbidden(resource.group, resource.plural, obj["metadata"].get("name", ""), why)
