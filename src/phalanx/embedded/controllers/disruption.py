"""Keep the status of PodDisruptionBudgets up to date. The first part computes the number of disruptions that a
PodDisruptionBudget allows now; its functions have no side effects.

At each eviction, the eviction API decrements `disruptionsAllowed` and adds the pod to `disruptedPods`. The pod is
removed from this list when its deletion is observed, or after two minutes
(k8s.io/kubernetes/pkg/controller/disruption).

The second part is the disruption controller, which writes this status. The eviction API reads the status to allow or
refuse evictions."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import DISRUPTION_BUDGETS, PODS
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.calls import Calls, Clock
from phalanx.embedded.controllers.runtime.discovery import discover
from phalanx.embedded.controllers.runtime.pod_state import controller_of, is_deleting, is_ready, seconds, selects
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue
from phalanx.embedded.controllers.runtime.recorder import EventRecorder

DISRUPTED_FOR_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected number of pods, and the required number of healthy pods."""

    pods: int
    healthy: int


def needs_scale(spec: Mapping[str, object]) -> bool:
    """Return True if the bound of the budget (minAvailable, maxUnavailable) is relative to the desired replicas of the
    pods' controllers. Otherwise it is relative to the number of existing pods."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def expected(spec: Mapping[str, Any], pods: int, scale: int) -> Expected:
    """Return the expected and the required numbers of pods of a budget. `pods`: the number of matching pods; `scale`:
    the sum of the desired replicas of their controllers."""
    if (most := spec.get("maxUnavailable")) is not None:
        return Expected(pods=scale, healthy=max(0, scale - _number(most, scale)))
    least = spec.get("minAvailable", 1)
    if isinstance(least, str):
        return Expected(pods=scale, healthy=_number(least, scale))
    return Expected(pods=pods, healthy=least)


def disrupted(budget: Object, pods: Sequence[Object], now_s: float) -> dict[str, str]:
    """Return the evicted pods whose deletion was not observed yet: name -> time of the eviction. They count as deleted.
    Evictions that are older than `DISRUPTED_FOR_S` are ignored."""
    listed: dict[str, str] = budget.get("status", {}).get("disruptedPods") or {}
    staying = {pod["metadata"]["name"] for pod in pods if not is_deleting(pod)}
    return {name: at for name, at in listed.items() if name in staying and seconds(at) + DISRUPTED_FOR_S > now_s}


def status_of(budget: Object, pods: Sequence[Object], want: Expected, now_s: float, now: str) -> dict[str, Any]:
    """Return the status of `budget`."""
    going = disrupted(budget, pods, now_s)
    healthy = sum(is_ready(pod) for pod in pods if not is_deleting(pod) and pod["metadata"]["name"] not in going)
    allowed = max(0, healthy - want.healthy) if want.pods > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    status: dict[str, Any] = {
        "observedGeneration": budget["metadata"].get("generation", 1),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": want.healthy,
        "expectedPods": want.pods,
        "conditions": _conditions(budget, "True" if allowed else "False", reason, "", now),
    }
    return status | ({"disruptedPods": going} if going else {})


def failed_status(budget: Object, message: str, now: str) -> dict[str, Any]:
    """Return the status of a budget that cannot be evaluated. This status allows no disruption."""
    return {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
        **budget.get("status", {}),
        "observedGeneration": budget["metadata"].get("generation", 1),
        "disruptionsAllowed": 0,
        "conditions": _conditions(budget, "False", "SyncFailed", message, now),
    }


def _conditions(budget: Object, value: str, reason: str, message: str, now: str) -> list[dict[str, Any]]:
    before = budget.get("status", {}).get("conditions") or []
    rest = [entry for entry in before if entry["type"] != "DisruptionAllowed"]
    old = next((entry for entry in before if entry["type"] == "DisruptionAllowed"), None)
    since = old["lastTransitionTime"] if old is not None and old["status"] == value else now
    new = {
        "type": "DisruptionAllowed",
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    return [*rest, new]


def _number(bound: int | str, of: int) -> int:
    """Return the bound as a number of pods. A percentage is converted to a number of pods out of `of` pods, rounded
    up."""
    return bound if isinstance(bound, int) else ceil(int(bound.rstrip("%")) * of / 100)


_BATCH_S = 0.2


class NoScale(ApiError):
    """Raised if the controller of a pod does not state its desired number of replicas."""


class DisruptionController:
    """The controller of PodDisruptionBudgets. Call `start`, then run `queue`."""

    def __init__(
        self, calls: Calls, recorder: EventRecorder, *, retry: Retry | None = None, clock: Clock = time.time
    ) -> None:
        self._calls, self._recorder, self._clock = calls, recorder, clock
        self._budgets, self._pods = calls.cache(DISRUPTION_BUDGETS), calls.cache(PODS)
        self._of_namespace: defaultdict[str, dict[str, Object]] = defaultdict(dict)
        self.queue = WorkQueue("disruption budget", self._look, workers=4, retry=retry)

    def start(self) -> None:
        self._budgets.subscribe(self._budget_changed)
        self._pods.subscribe(self._pod_changed)

    def _budget_changed(self, change: Change) -> None:
        budget = change.new or change.old
        assert budget is not None
        budgets = self._of_namespace[budget["metadata"]["namespace"]]
        if change.new is None:
            budgets.pop(key_of(budget), None)
        else:
            budgets[key_of(budget)] = budget
            self.queue.add(key_of(budget))

    def _pod_changed(self, change: Change) -> None:
        for pod in (change.old, change.new):
            if pod is None:
                continue
            for key, budget in self._of_namespace.get(pod["metadata"]["namespace"], {}).items():
                if selects(budget["spec"].get("selector"), pod["metadata"].get("labels") or {}):
                    self.queue.add_after(key, _BATCH_S)

    async def _look(self, key: str) -> None:
        budget = self._budgets.objects.get(key)
        if budget is None:
            return
        now_s, pods = self._clock(), self._pods_of(budget)
        now = write_moment(now_s)
        try:
            scale = await self._scale(pods) if needs_scale(budget["spec"]) else 0
            status = status_of(budget, pods, expected(budget["spec"], len(pods), scale), now_s, now)
        except NoScale as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self._recorder.tell("controllermanager", budget, "Warning", "CalculateExpectedPodCountFailed", message)
            status = failed_status(budget, str(error), now)
        if not pods:
            self._recorder.tell("controllermanager", budget, "Normal", "NoPods", "No matching pods found")
        if status != budget.get("status"):
            await self._write(key, {**budget, "status": status})
        if disrupted(budget, pods, now_s):
            self.queue.add_after(key, DISRUPTED_FOR_S)

    def _pods_of(self, budget: Object) -> list[Object]:
        namespace, selector = budget["metadata"]["namespace"], budget["spec"].get("selector")
        return [
            pod
            for pod in self._pods.objects.values()
            if pod["metadata"]["namespace"] == namespace and selects(selector, pod["metadata"].get("labels") or {})
        ]

    async def _scale(self, pods: list[Object]) -> int:
        """Return the sum of the desired replicas of these pods' controllers, which is read from their scale
        subresources."""
        owners = {
            (owner["apiVersion"], owner["kind"], owner["name"]): pod["metadata"]["namespace"]
            for pod in pods
            if (owner := controller_of(pod)) is not None
        }
        if not owners:
            return 0
        catalog, total = await discover(self._calls), 0
        for (api_version, kind_name, name), namespace in owners.items():
            kind = catalog.named.get((api_version, kind_name))
            if kind is None:
                raise NoScale(f"{kind_name} of {api_version} is not served")
            try:
                scale = await self._calls.request("GET", kind.path(namespace, name, "scale"))
            except ApiRefusal as refusal:
                resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
                raise NoScale(f"{resource} does not implement the scale subresource") from refusal
            total += scale.get("spec", {}).get("replicas", 0)
        return total

    async def _write(self, key: str, budget: Object) -> None:
        try:
            await self._calls.replace(DISRUPTION_BUDGETS, budget, "status")
        except ApiRefusal as refusal:
            if refusal.code == 409:
                await self._calls.get(DISRUPTION_BUDGETS, budget["metadata"]["name"], budget["metadata"]["namespace"])
                self.queue.add_after(key, 0.05)
            elif refusal.code != 404:
                raise
