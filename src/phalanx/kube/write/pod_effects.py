"""Carry out the writes to pods that gangs request. After a write, the object that the API server returns is put into
the cache, unless the cache already has a newer version.

Bare pods (pods without a Job) are evicted in three steps: check their PodDisruptionBudgets, mark the pods, evict them.

A bare pod has no Job that could be suspended, so it is evicted by the Eviction API, which respects
PodDisruptionBudgets. A budget may allow the eviction of each single pod, but not the eviction of several pods together.
So the budgets are checked for all victims of a preemptor together, before the first eviction.

This module also writes the node that is planned for a pod on the pod's volume claims, so that the volumes are created
for that node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from phalanx.client.connection import STRATEGIC_PATCH, ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import DISRUPTION_BUDGETS, PODS, VOLUME_CLAIMS, Kind
from phalanx.kube.capacity.definition_overlay import DefinitionOverlay
from phalanx.kube.capacity.node_parts import node_and_part
from phalanx.kube.gang.effects import Answered, WriteOutcome
from phalanx.kube.read import labels
from phalanx.kube.read.labels import PREEMPTED
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, RecordKey, StartRecord
from phalanx.kube.write.binding import NOTHING, BindPod, PinPod, PlaceStandIn, SendPod
from phalanx.kube.write.writer import Verdict, Write, Writer


class ReadDisruptionBudgets(Write):
    """A check of the PodDisruptionBudgets for all victims of the preemptor `by`. The check writes nothing. `objection`:
    the result of the check: a text about the budget that forbids the eviction of the victims, or "". `victims`: the
    pods of all victims. While the check runs, the pods of further victims of the same preemptor may be added."""

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
        return []  # no budgets, or no right to list them; the server still checks each eviction
    return found


def budget_objection(budgets: Iterable[Object], pods: Sequence[Object]) -> str:
    """Return a text about the first budget that does not allow the eviction of all pods that it selects; "" if every
    budget allows it."""
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
    """The write of an annotation on a bare pod, such as the mark of a preemption before the eviction."""

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
    """The eviction of a pod. `grace_s`: the termination grace period in seconds, if it is shorter than the pod's own;
    None for the pod's own. A budget may refuse the eviction (429), and the caller then decides when to try again.
    `condition`: a condition with the cause of the eviction. It is written to the pod's status first. If that write is
    refused, the pod is evicted without the condition."""

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


SELECTED_NODE = "volume.kubernetes.io/selected-node"


class SelectNode(Write):
    """The write that puts the planned node of a waiting pod on one of its volume claims, so that the claim's
    provisioner creates the volume for that node."""

    def __init__(self, claim: Object, node: str) -> None:
        meta = claim["metadata"]
        self.key = f"claims/{meta['namespace']}/{meta['name']}"
        self.claim, self.node = claim, node

    async def send(self, api: Connection) -> Object:
        meta = self.claim["metadata"]
        body = {"metadata": {"uid": meta["uid"], "annotations": {SELECTED_NODE: self.node}}}
        return await api.patch(VOLUME_CLAIMS, meta["name"], body, meta["namespace"], fieldManager=labels.FIELD_MANAGER)

    async def read(self, api: Connection) -> Object:
        return await api.get(VOLUME_CLAIMS, self.claim["metadata"]["name"], self.claim["metadata"]["namespace"])

    def judge(self, obj: Object) -> Verdict:
        if obj["metadata"]["uid"] != self.claim["metadata"]["uid"]:
            return Verdict.GONE
        bound = (obj.get("status") or {}).get("phase") == "Bound"
        written = (obj["metadata"].get("annotations") or {}).get(SELECTED_NODE) == self.node
        return Verdict.ACHIEVED if bound or written else Verdict.AGAIN


log = logging.getLogger(__name__)


class PodWrites:
    """The writes to pods that gangs request. This class implements the protocol `PodEffects`. `conclude`: a function
    that gets the id of a gang and reconciles the gang after the answer to a write. `overlay`: the object that returns
    the annotations and stand-ins from the definitions of dialects."""

    def __init__(
        self,
        writer: Writer,
        informers: Callable[[Kind], Informer],
        conclude: Callable[[str], None],
        key: RecordKey | None,
        overlay: DefinitionOverlay,
    ) -> None:
        self._writer, self._informers, self._conclude, self._key = writer, informers, conclude, key
        self._overlay = overlay
        # Preemptor -> the running check of its victims' budgets, and the functions to call with the result.
        self._budgets: dict[str, tuple[ReadDisruptionBudgets, list[Callable[[str], None]]]] = {}

    def bind(
        self, gang: str, pod: Pod, node: str, devices: tuple[str, ...], record: StartRecord | None, answered: Answered
    ) -> None:
        if pod.stands_in and (placed := self._overlay.placed(pod.uid, node)) is not None:
            self._writer.put(PlaceStandIn(*placed), self._done(gang, answered, placed[0].kind))
            return
        if record is not None and self._key is not None:
            record = self._key.sign(record, pod.uid)
        obj, (machine, part) = self._informers(PODS).objects.get(pod.key, {}), node_and_part(node)
        said = self._overlay.at_binding(obj, machine, part, devices) if part or devices else NOTHING
        pin = PinPod(pod, machine, obj, devices) if pod.pinned else None
        self._writer.put(pin or BindPod(pod, machine, record, devices, said), self._done(gang, answered))

    def select_node(self, pod: Pod, node: str) -> None:
        def done(answer: WriteOutcome, obj: Object | None, text: str) -> None:
            if obj is not None:
                self._informers(VOLUME_CLAIMS).observe(obj)
            if answer is WriteOutcome.REFUSED:
                log.warning("the node could not be written on a claim of pod %s: %s", pod.key, text)

        for name in pod.unplaced:
            claim = self._informers(VOLUME_CLAIMS).objects.get(f"{pod.namespace}/{name}")
            if claim is not None:
                self._writer.put(SelectNode(claim, node_and_part(node)[0]), done)

    def read_budgets(self, gang: str, by: str, pods: Sequence[Pod], answered: Callable[[str], None]) -> None:
        def heard(objection: str) -> None:
            answered(objection)
            self._conclude(gang)

        if by not in self._budgets:
            self._ask_budgets(by)
        question, waiting = self._budgets[by]
        question.victims.extend(self._informers(PODS).objects[pod.key] for pod in pods)
        waiting.append(heard)

    def _ask_budgets(self, by: str) -> None:
        question, waiting = self._budgets[by] = ReadDisruptionBudgets(by), list[Callable[[str], None]]()

        def done(answer: WriteOutcome, obj: Object | None, text: str) -> None:
            del self._budgets[by]
            for heard in waiting:
                heard(question.objection or text)

        self._writer.put(question, done)

    def mark(self, gang: str, pod: Pod, mark: PreemptionMark, answered: Answered) -> None:
        self._writer.put(AnnotatePod(pod, PREEMPTED, mark.text()), self._done(gang, answered))

    def send(self, gang: str, pod: Pod, record: StartRecord | None, answered: Answered) -> None:
        if record is not None and self._key is not None:
            record = self._key.sign(record, pod.uid)
        known = self._informers(PODS).objects.get(pod.key, {})
        self._writer.put(SendPod(pod, record, known), self._done(gang, answered))

    def annotate(self, pod: Pod, word: str, text: str) -> None:
        """Write an annotation of Phalanx on the pod."""

        def done(answer: WriteOutcome, obj: Object | None, said: str) -> None:
            if obj is not None:
                self._informers(PODS).observe(obj)

        if not pod.stands_in:  # a stand-in is not a pod in the API
            self._writer.put(AnnotatePod(pod, word, text), done)

    def evict(
        self,
        gang: str,
        pod: Pod,
        grace_s: float | None,
        answered: Answered,
        condition: Mapping[str, str] | None = None,
    ) -> None:
        def logged(answer: WriteOutcome, text: str) -> None:
            if answer is WriteOutcome.REFUSED:
                log.info("pod %s could not be evicted: %s", pod.key, text)
            answered(answer, text)

        self._writer.put(EvictPod(pod, grace_s, condition), self._done(gang, logged))

    # --- private ---------------------------------------------------------------------------------------------------

    def _done(
        self, gang: str, answered: Answered, kind: Kind = PODS
    ) -> Callable[[WriteOutcome, Object | None, str], None]:
        def done(answer: WriteOutcome, obj: Object | None, text: str) -> None:
            if obj is not None and obj.get("kind") != "Status":  # the response to a binding or an eviction is a Status
                self._informers(kind).observe(obj)
            answered(answer, text)
            self._conclude(gang)

        return done
