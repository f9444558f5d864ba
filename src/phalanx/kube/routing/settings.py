"""The settings that define how Phalanx behaves on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from phalanx.dialects.enabled import DIALECTS
from phalanx.dialects.frame.dialect import Dialect
from phalanx.dialects.job_kinds.replica_types import NAME as KUBEFLOW
from phalanx.kube.gang.effects import GangTimeouts
from phalanx.kube.install.definitions import DEFAULT_QUEUE
from phalanx.kube.read import labels
from phalanx.kube.write.events import ReportRate


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """The settings of the scheduler on a cluster. `writes`: the number of concurrent writes. `dialects`: the names of
    the enabled dialects. Phalanx binds pods with the scheduler names of these dialects, and reads their kinds. `alone`:
    a function of the spec of a pod that names the default scheduler. It returns True if Phalanx must bind the pod as a
    job of one pod, because no other scheduler does. `sole`: True if no other scheduler runs, so that Phalanx binds all
    pods of gangs. `patient`: True to repeat requests that the API server refuses with code 403, because a server that
    has just started has not read all RBAC roles yet. It is False in commands that read objects once, perhaps with few
    rights."""

    default_queue: str = DEFAULT_QUEUE
    writes: int = 32
    timeouts: GangTimeouts = field(default_factory=GangTimeouts)
    report_rate: ReportRate = field(default_factory=ReportRate)
    dialects: frozenset[str] = frozenset()
    alone: Callable[[Mapping[str, Any]], bool] = lambda spec: False
    sole: bool = False
    patient: bool = True

    @property
    def answers_to(self) -> frozenset[str]:
        names = frozenset[str]().union(*(dialect.scheduler_names for dialect in self.others))
        return labels.OURS | names

    @property
    def others(self) -> tuple[Dialect[Any], ...]:
        """Return the enabled dialects."""
        return tuple(dialect for name, dialect in DIALECTS.items() if name in self.dialects)

    @property
    def training_jobs(self) -> bool:
        """Return whether the jobs of Kubeflow's training operator are read."""
        return KUBEFLOW in self.dialects

    @property
    def frameworks(self) -> bool:
        """Return True if Phalanx reads the jobs of all frameworks whose kinds the API server serves. It does so if the
        Kueue dialect is enabled, because users queue these jobs with Kueue's labels."""
        return "kueue" in self.dialects
