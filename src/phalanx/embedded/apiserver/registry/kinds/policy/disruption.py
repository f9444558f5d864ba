"""Pod disruption budgets, and their effect on evictions.

`allow` decides about `pods/NAME/eviction`: it returns the budget after the eviction, or refuses the eviction. Source:
pkg/apis/policy/validation, pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from phalanx.embedded.apimachinery.meta.resource import Object
from phalanx.embedded.apimachinery.meta.status import Cause, StatusError, forbidden, invalid_value, not_supported
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import (
    Found,
    at_most_all,
    count_or_percent,
    label_selector,
    not_negative,
    selects,
)
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus

COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
POLICIES = ("AlwaysAllow", "IfHealthyBudget")
REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."
MAX_DISRUPTED = 2000


class BudgetStrategy(SpecAndStatus):
    """The strategy of `poddisruptionbudgets.policy`."""

    counts = True
    allow_unconditional_update = False

    def first_status(self, obj: Object) -> Object:
        return dict.fromkeys(COUNTS, 0)

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if least is not None and most is not None:
            shown = {
                "MinAvailable": least,
                "Selector": spec.get("selector"),
                "MaxUnavailable": most,
                "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
            }
            found.append(invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
        for key, value in (("minAvailable", least), ("maxUnavailable", most)):
            if value is not None:
                count_or_percent(found, value, f"spec.{key}")
                at_most_all(found, value, f"spec.{key}")
        label_selector(found, spec.get("selector"), "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in POLICIES:
            found.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, POLICIES))
        return found

    def validate_status_update(self, obj: Object, old: Object) -> list[Cause]:
        found: Found = []
        not_negative(found, obj["status"], COUNTS, "status")
        return found


# --- evictions -------------------------------------------------------------------------------------------------------


def allow(pod: Object, budgets: Iterable[Object], now: str) -> Object | None:
    """Return the changed budget that must be stored before the pod is evicted: it allows one disruption fewer, and
    names the pod in `disruptedPods`. Return None if no budget needs a change. `budgets`: all budgets of the pod's
    namespace. `now`: the present time in the format of RFC 3339. Raises StatusError if a budget forbids the
    eviction."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Pending", "Succeeded", "Failed") or pod["metadata"].get("deletionTimestamp"):
        return None
    labels = pod["metadata"].get("labels") or {}
    matching = [one for one in budgets if selects(one["spec"].get("selector"), labels)]
    if not matching:
        return None
    if len(matching) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise StatusError(500, "InternalError", f"Internal error occurred: {text}")
    budget = matching[0]
    if not _is_ready(status) and _ignores_unready(budget):
        return None
    return _disrupted(budget, pod["metadata"]["name"], now)


def _is_ready(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _ignores_unready(budget: Object) -> bool:
    """Return True if pods that are not ready may be evicted without using the budget: always (AlwaysAllow), or because
    enough pods are healthy."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    return bool(status.get("desiredHealthy", 0) > 0 and status["currentHealthy"] >= status["desiredHealthy"])


def _disrupted(budget: Object, pod: str, now: str) -> Object:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise too_many_requests(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("policy", "poddisruptionbudgets", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED:
        text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("policy", "poddisruptionbudgets", name, text)
    if allowed == 0:
        desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise too_many_requests(
            f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        )
    noted = {**(status.get("disruptedPods") or {}), pod: now}
    left = status | {"disruptionsAllowed": allowed - 1, "disruptedPods": noted}
    if allowed == 1:
        none_more = {"status": "False", "reason": "InsufficientPods", "message": ""}
        seen = {"observedGeneration": status["observedGeneration"]} if status.get("observedGeneration") else {}
        left["conditions"] = _with(status, {"type": "DisruptionAllowed", **none_more, **seen}, now)
    return budget | {"status": left}


def evicted(pod: Object, now: str) -> Object | None:
    """Return the pod with the condition DisruptionTarget, which the podFailurePolicy of a Job may match; None if the
    pod already has this condition."""
    status = pod.get("status") or {}
    why = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    condition = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, **why}
    conditions = _with(status, condition, now)
    if conditions == (status.get("conditions") or []):
        return None
    return pod | {"metadata": dict(pod["metadata"]), "status": {**status, "conditions": conditions}}


def _with(status: Mapping[str, Any], condition: Object, now: str) -> list[Object]:
    """Return the conditions with this condition added or replaced. Its transition time changes only if its status
    changes."""
    conditions: list[Object] = list(status.get("conditions") or ())
    place = next((at for at, one in enumerate(conditions) if one.get("type") == condition["type"]), len(conditions))
    since = now
    if place < len(conditions) and conditions[place].get("status") == condition["status"]:
        since = conditions[place].get("lastTransitionTime") or now
    conditions[place : place + 1] = [{**condition, "lastTransitionTime": since}]
    return conditions


def too_many_requests(why: str, retry_after_s: int | None = None) -> StatusError:
    """Return an error 429 that names a disruption budget as its cause."""
    details = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    return StatusError(429, "TooManyRequests", REFUSAL, details=details, retry_after_s=retry_after_s)


def eviction_name_matches(name: str, eviction: Object) -> bool:
    """Return True if the Eviction has the name `name`, and this is a valid name. `name`: the pod's name in the path of
    the request."""
    given = (eviction.get("metadata") or {}).get("name", "")
    return given == name and not formats.dns_subdomain(name)
