"""Evict bare pods: check their PodDisruptionBudgets, mark them, evict them.

A pod without a Job to suspend is evicted by the Eviction API, which respects PodDisruptionBudgets. A budget may allow
the eviction of each of several pods, and not of all. So the budgets are checked for all victims of a preemptor
together, before the first eviction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from phalanx.client.connection import STRATEGIC_PATCH, ApiRefusal, Connection, Object
from phalanx.client.kind import DISRUPTION_BUDGETS, PODS
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.write.writer import Verdict, Write


class ReadDisruptionBudgets(Write):
    """A check, without a write, of the PodDisruptionBudgets for all victims of the preemptor `by`. `objection`: the
    result: a text about the budget that forbids their eviction, or "". `victims`: the pods of all victims; pods may be
    added until the check is answered."""

    def __init__(self, by: str) -> None:
        self.key = f"budgets/{by}"
        self.victims: list[Object] = []
        self.objection = ""

    async def send(self, api: Connection) -> Object:
        listed: dict[str, list[Object]] = {}
        while missing := {pod["metadata"]["namespace"] for pod in self.victims} - listed.keys():
            for namespace in sorted(missing):
                listed[namespace] = await _budgets(api, namespace)
        for namespace, budgets in listed.items():
            here = [pod for pod in self.victims if pod["metadata"]["namespace"] == namespace]
            self.objection = self.objection or budget_objection(budgets, here)
        return {}

    async def read(self, api: Connection) -> Object:
        return {}

    def judge(self, obj: Object) -> Verdict:
        return Verdict.AGAIN


async def _budgets(api: Connection, namespace: str) -> list[Object]:
    try:
        found: list[Object] = (await api.list(DISRUPTION_BUDGETS, namespace))["items"]
    except ApiRefusal as error:
        if error.code not in {403, 404}:
            raise
        return []  # no budgets, or no right to list them: the server still checks each eviction
    return found


def budget_objection(budgets: Iterable[Object], pods: Sequence[Object]) -> str:
    """Return a text about the first budget that allows fewer disruptions than it selects of these pods; "" if there is
    none."""
    for budget in budgets:
        hit = sum(_selects((budget.get("spec") or {}).get("selector"), pod) for pod in pods)
        allowed = int((budget.get("status") or {}).get("disruptionsAllowed") or 0)
        if hit > allowed:
            return f"the PodDisruptionBudget {budget['metadata']['name']} allows {allowed} of {hit} evictions now"
    return ""


def _selects(selector: Mapping[str, Any] | None, pod: Object) -> bool:
    """Return whether a metav1.LabelSelector selects the pod. None selects no pod, and an empty selector selects every
    pod."""
    if selector is None:
        return False
    said = pod["metadata"].get("labels") or {}
    if any(said.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(one, said) for one in selector.get("matchExpressions") or ())


def _holds(one: Mapping[str, Any], said: Mapping[str, str]) -> bool:
    match one["operator"]:
        case "In":
            return said.get(one["key"]) in one["values"]
        case "NotIn":
            return said.get(one["key"]) not in one["values"]
        case "Exists":
            return one["key"] in said
        case _:
            return one["key"] not in said


class AnnotatePod(Write):
    """A write of an annotation on a bare pod, such as the mark of a preemption before the eviction."""

    def __init__(self, pod: Pod, word: str, text: str) -> None:
        self.key = f"pods/{pod.key}"
        self.pod, self.word, self.text = pod, word, text

    async def send(self, api: Connection) -> Object:
        body = {"metadata": {"uid": self.pod.uid, "annotations": {self.word: self.text}}}
        return await api.patch(PODS, self.pod.name, body, self.pod.namespace, fieldManager=labels.FIELD_MANAGER)

    async def read(self, api: Connection) -> Object:
        return await api.get(PODS, self.pod.name, self.pod.namespace)

    def judge(self, obj: Object) -> Verdict:
        if obj["metadata"]["uid"] != self.pod.uid:
            return Verdict.GONE
        said = (obj["metadata"].get("annotations") or {}).get(self.word)
        return Verdict.ACHIEVED if said == self.text else Verdict.AGAIN


class EvictPod(Write):
    """The eviction of a pod. `grace_s`: the time in which the pod must end; None: the pod's own grace period. A budget
    may refuse the eviction (429). The caller decides when to ask again. `condition`: a condition with the cause,
    written to the pod's status before the eviction. If that write is refused, the pod is evicted without the
    condition."""

    retried = frozenset()

    def __init__(self, pod: Pod, grace_s: float | None, condition: Mapping[str, str] | None = None) -> None:
        self.key = f"pods/{pod.key}"
        self.pod, self.grace_s, self.condition = pod, grace_s, condition

    async def send(self, api: Connection) -> Object:
        options: Object = {"preconditions": {"uid": self.pod.uid}}
        if self.grace_s is not None and self.grace_s < self.pod.grace_s:
            options["gracePeriodSeconds"] = max(0, round(self.grace_s))
        meta = {"name": self.pod.name, "namespace": self.pod.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}
        await self._explain(api)
        return await api.create(PODS, body, self.pod.namespace, "eviction", self.pod.name)

    async def _explain(self, api: Connection) -> None:
        if self.condition is None:
            return
        body = {"metadata": {"uid": self.pod.uid}, "status": {"conditions": [self.condition]}}
        with suppress(ApiRefusal):
            await api.patch(PODS, self.pod.name, body, self.pod.namespace, "status", STRATEGIC_PATCH)

    async def read(self, api: Connection) -> Object:
        return await api.get(PODS, self.pod.name, self.pod.namespace)

    def judge(self, obj: Object) -> Verdict:
        if obj["metadata"]["uid"] != self.pod.uid:
            return Verdict.GONE
        return Verdict.ACHIEVED if "deletionTimestamp" in obj["metadata"] else Verdict.AGAIN
