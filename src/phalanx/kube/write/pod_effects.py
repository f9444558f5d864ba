"""Carry out the writes to pods that gangs request. An object in an answer goes to the caches like an object from the
watch, and the newer version counts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from phalanx.client.connection import Object
from phalanx.client.informer import Informer
from phalanx.client.kind import PODS, VOLUME_CLAIMS, Kind
from phalanx.kube.capacity.dialect_watch import DialectWatch
from phalanx.kube.capacity.node_parts import node_and_part
from phalanx.kube.gang.effects import Answered, WriteOutcome
from phalanx.kube.read.labels import PREEMPTED
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import PreemptionMark, RecordKey, StartRecord
from phalanx.kube.write.binding import BindPod, PinPod, PlaceStandIn, SendPod
from phalanx.kube.write.eviction import AnnotatePod, EvictPod, ReadDisruptionBudgets
from phalanx.kube.write.volume_claim import SelectNode
from phalanx.kube.write.writer import Writer

log = logging.getLogger(__name__)


class PodWrites:
    """The writes to pods that gangs request: the implementation of the protocol `PodEffects`. `conclude`: called with
    the id of a gang, to reconcile it after the answer to a write. `dialects`: returns the annotations that dialects add
    to a placed pod."""

    def __init__(
        self,
        writer: Writer,
        informers: Callable[[Kind], Informer],
        conclude: Callable[[str], None],
        key: RecordKey | None,
        dialects: DialectWatch,
    ) -> None:
        self._writer, self._informers, self._conclude, self._key = writer, informers, conclude, key
        self._dialects = dialects
        # Preemptor -> the running check of its victims' budgets, and the callbacks that wait for it.
        self._budgets: dict[str, tuple[ReadDisruptionBudgets, list[Callable[[str], None]]]] = {}

    def bind(
        self, gang: str, pod: Pod, node: str, devices: tuple[str, ...], record: StartRecord | None, answered: Answered
    ) -> None:
        if (placed := self._dialects.placed(pod.uid, node)) is not None:
            self._writer.put(PlaceStandIn(*placed), self._done(gang, answered, placed[0].kind))
            return
        if record is not None and self._key is not None:
            record = self._key.sign(record, pod.uid)
        obj, machine = self._informers(PODS).objects.get(pod.key, {}), node_and_part(node)[0]
        said = self._dialects.at_binding(obj, node, devices)
        pin = PinPod(pod, machine, obj, devices) if pod.pinned else None
        self._writer.put(pin or BindPod(pod, machine, record, devices, said), self._done(gang, answered))

    def select_node(self, pod: Pod, node: str) -> None:
        def done(answer: WriteOutcome, obj: Object | None, text: str) -> None:
            if obj is not None:
                self._informers(VOLUME_CLAIMS).observe(obj)
            if answer is WriteOutcome.REFUSED:
                log.warning("a claim of pod %s could not be told its node: %s", pod.key, text)

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

        if not pod.stands_in:  # the object of a stand-in has no such annotations
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

    # --- inside ---------------------------------------------------------------------------------------------------

    def _done(
        self, gang: str, answered: Answered, kind: Kind = PODS
    ) -> Callable[[WriteOutcome, Object | None, str], None]:
        def done(answer: WriteOutcome, obj: Object | None, text: str) -> None:
            if obj is not None and obj.get("kind") != "Status":  # which answers bindings and evictions
                self._informers(kind).observe(obj)
            answered(answer, text)
            self._conclude(gang)

        return done
