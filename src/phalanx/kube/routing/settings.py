"""How Phalanx is to behave on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from phalanx.dialects import kubeflow, volcano
from phalanx.kube.gang.barrier import GangTimeouts
from phalanx.kube.install.definitions import DEFAULT_QUEUE
from phalanx.kube.read import labels
from phalanx.kube.write.events import ReportRate


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """`writes`: how many are on their way at once. `dialects`: whose scheduler names we answer to, and whose kinds we
    read, besides our own: `volcano`, `kubeflow`."""

    default_queue: str = DEFAULT_QUEUE
    writes: int = 32
    timeouts: GangTimeouts = field(default_factory=GangTimeouts)
    report_rate: ReportRate = field(default_factory=ReportRate)
    dialects: frozenset[str] = frozenset()

    @property
    def answers_to(self) -> frozenset[str]:
        return labels.OURS | (self.dialects & {volcano.SCHEDULER_NAME})

    @property
    def volcano(self) -> bool:
        return volcano.SCHEDULER_NAME in self.dialects

    @property
    def training_jobs(self) -> bool:
        return kubeflow.NAME in self.dialects
