"""ResourceQuota admission: a namespace's total stays below its quotas.

What is used is counted anew from the stored objects at every create in a namespace that has a quota, instead of being
kept in `status.used` by a controller: exact, and dear only where a quota exists. Counted are pods (number, cpu, memory,
ephemeral storage, extended resources), claims (number and storage, also of each class), services (number, load
balancers, node ports) and the number of any kind. A change is asked for what it adds.

Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota, pkg/quota/v1/evaluator/core.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.embedded.apiserver.admission.limit_ranger import total
from phalanx.embedded.apiserver.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apiserver.apimachinery.meta.status import forbidden, qualified
from phalanx.embedded.apiserver.apimachinery.schema import quantity
from phalanx.embedded.apiserver.registry.kinds import checks

Amounts = Mapping[str, int]  # billionths, by the resource's name in a quota

PLAIN = ("cpu", "memory", "ephemeral-storage")
_CLASS = "volume.beta.kubernetes.io/storage-class"  # annotation: how classes were named before the field
COUNTED = frozenset(
    {"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims"}
)


def enforce(
    resource: Resource, obj: Object, quotas: Iterable[Object], there: Iterable[Object], old: Object | None = None
) -> None:
    """`there` are the objects of the same kind in the namespace; `old`: of a change, what it was before. Raises
    ApiError 403."""
    whole, before = usage(resource, obj), usage(resource, old) if old is not None else {}
    asked = {name: amount - before.get(name, 0) for name, amount in whole.items()}
    used: dict[str, int] | None = None
    for quota in quotas:
        if not _in_scope(quota, resource, obj):
            continue
        _must_specify(resource, obj, quota, whole)
        hard = {name: amount for name, amount in (quota["spec"].get("hard") or {}).items() if asked.get(name, 0) > 0}
        if not hard:
            continue
        if used is None:
            used = _sum(usage(resource, one) for one in there if _counts(resource, one))
        over = [name for name in hard if asked[name] + used.get(name, 0) > quantity.of(hard[name])]
        if over:
            raise _exceeded(resource, obj, quota, sorted(over), asked, used)


def usage(resource: Resource, obj: Object) -> dict[str, int]:
    """Return what one object takes of each resource that a quota can name."""
    found = {f"count/{qualified(resource.plural, resource.group)}": quantity.NANO}
    if not resource.group and resource.plural in COUNTED:
        found[resource.plural] = quantity.NANO
    if resource.key == ("", "pods"):
        found |= _pod_usage(obj["spec"])
    elif resource.key == ("", "persistentvolumeclaims"):
        found |= _claim_usage(obj)
    elif resource.key == ("", "services"):
        found |= _service_usage(obj["spec"])
    return found


def _claim_usage(claim: Object) -> dict[str, int]:
    """Return the storage, in all and of its class."""
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
    """Where a quota limits cpu or memory, every pod must say how much it wants."""
    if resource.key != ("", "pods"):
        return
    named = {f"{which}.{name}" for which in ("requests", "limits") for name in PLAIN[:2]} | set(PLAIN[:2])
    missing = sorted(name for name in quota["spec"].get("hard") or {} if name in named and name not in asked)
    if missing:
        places = ",".join(one["name"] for one in obj["spec"].get("containers") or ())
        listed = "; ".join(f"{name} for: {places}" for name in missing)
        why = f"failed quota: {quota['metadata']['name']}: must specify {listed}"
        raise forbidden(resource.group, resource.plural, obj["metadata"].get("name", ""), why)


def _counts(resource: Resource, obj: Object) -> bool:
    """Pods that are done take nothing any more."""
    return resource.key != ("", "pods") or (obj.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _in_scope(quota: Object, resource: Resource, obj: Object) -> bool:
    """Scopes restrict a quota to some pods."""
    if resource.key != ("", "pods"):
        return not quota["spec"].get("scopes") and not quota["spec"].get("scopeSelector")
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
