"""List all dialects by name. A *dialect* is the part of Phalanx that reads another scheduler's objects and writes their
status. If a dialect is added, this is the only existing module that must change.

Python imports a dialect's modules only when the dialect is first used. So a scheduler without dialects starts without
loading a hundred modules that it does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, TypeVar

from phalanx.client.kind import PODS, Kind
from phalanx.dialects.frame.dialect import Dialect, Figures, GangHistory, Occurrences, View
from phalanx.dialects.job_kinds.appwrapper.kinds import NAME as APP_WRAPPER
from phalanx.dialects.job_kinds.replica_types import NAME as KUBEFLOW
from phalanx.dialects.kai.kinds import NAME as KAI
from phalanx.dialects.kube_scheduler.koordinator.kinds import NAME as KOORDINATOR
from phalanx.dialects.kube_scheduler.kubernetes.kinds import NAME as KUBERNETES
from phalanx.dialects.kube_scheduler.scheduler_plugins.kinds import NAME as SCHEDULER_PLUGINS
from phalanx.dialects.kueue.kinds import NAME as KUEUE
from phalanx.dialects.kueue.kinds import PROVISIONING_REQUESTS, WORKLOADS
from phalanx.dialects.kueue.kinds import VISIBILITY as KUEUE_VISIBILITY
from phalanx.dialects.volcano.kinds import NAME as VOLCANO
from phalanx.dialects.yunikorn.gangs import SCHEDULER_NAME as YUNIKORN

Value = TypeVar("Value")
YUNIKORN_REST: Final = "ws"  # the first part of all paths of YuniKorn's REST endpoints


class Imported(Mapping[str, Value]):
    """A mapping that imports each value when the value is first read. `places`: a map from a key to MODULE:NAME, where
    NAME is the value's name in the module. MODULE is relative to `phalanx.dialects`."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, key: str) -> Value:
        module, _, name = self._places[key].partition(":")
        found: Value = getattr(import_module(f"phalanx.dialects.{module}"), name)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


DIALECTS: Final = Imported[Dialect[Any]](
    {
        KUEUE: "kueue.dialect:KUEUE",
        YUNIKORN: "yunikorn.dialect:YUNIKORN",
        # Koordinator comes before scheduler-plugins, because pods of Koordinator may have labels of both dialects.
        KOORDINATOR: "kube_scheduler.koordinator.dialect:KOORDINATOR",
        SCHEDULER_PLUGINS: "kube_scheduler.scheduler_plugins.dialect:SCHEDULER_PLUGINS",
        VOLCANO: "volcano.dialect:VOLCANO",
        KAI: "kai.dialect:KAI",
        KUBERNETES: "kube_scheduler.kubernetes.dialect:KUBERNETES",
        APP_WRAPPER: "job_kinds.appwrapper.dialect:APP_WRAPPER_DIALECT",
    }
)
# The dialects that `phalanx scheduler --dialect` accepts. AppWrapper is missing, because only `phalanx up` runs the
# controller of AppWrappers.
ON_CLUSTERS: Final = (*(name for name in DIALECTS if name != APP_WRAPPER), KUBEFLOW)


FIGURES: Final = Imported[Callable[[], Figures[Any]]]({KUEUE: "kueue.answers.figures:KueueFigures"})
# dialect -> the kinds of objects for which Phalanx records events whenever it writes such an object
RECORDED: Final[Mapping[str, tuple[Kind, ...]]] = {KUEUE: (WORKLOADS, PROVISIONING_REQUESTS), YUNIKORN: (PODS,)}
# dialect -> a function that returns the events to record for one write
EVENTS: Final = Imported[Occurrences]({KUEUE: "kueue.events:occurrences", YUNIKORN: "yunikorn.journal:occurrences"})
# dialect -> a function that creates the dialect's journal; its argument is the unique id of this process
JOURNALS: Final = Imported[Callable[[str], GangHistory]]({YUNIKORN: "yunikorn.journal:ApplicationJournal"})
# an API group, or the first part of a path outside all API groups -> the dialect that responds to requests with this
# group or path
ANSWERED: Final[Mapping[str, str]] = {KUEUE_VISIBILITY: KUEUE, YUNIKORN_REST: YUNIKORN}
# dialect -> the function that computes its responses (`frame.dialect.View`)
VIEWS: Final = Imported[View[Any]]({KUEUE: "kueue.answers.pending:visible", YUNIKORN: "yunikorn.rest:dashboards"})
# path -> a function that checks a posted text; the response does not depend on the scheduler's state
CHECKS: Final = Imported[Callable[[bytes], dict[str, Any]]](
    {f"{YUNIKORN_REST}/v1/validate-conf": "yunikorn.rest:validated"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """The scheduler program that Phalanx replaces when the dialect is enabled. `lease`: the Lease that the program's
    leader renews. `deployment`: the program's Deployment, if the program has no Lease. `stop`: the command with which
    an administrator stops the program."""

    what: str
    namespace: str
    lease: str = ""
    deployment: str = ""
    stop: str


def _scheduler(whose: str, namespace: str, deployment: str) -> Rival:
    stop = f"kubectl -n {namespace} scale deployment {deployment} --replicas=0"
    return Rival(what=f"{whose} own scheduler", namespace=namespace, deployment=deployment, stop=stop)


RIVALS: Final[Mapping[str, Rival]] = {
    KUEUE: Rival(
        what="Kueue's own controller",
        namespace="kueue-system",
        lease="c1f6bfd2.kueue.x-k8s.io",
        stop="kubectl -n kueue-system scale deployment kueue-controller-manager --replicas=0",
    ),
    VOLCANO: _scheduler("Volcano's", "volcano-system", "volcano-scheduler"),
    YUNIKORN: _scheduler("YuniKorn's", "yunikorn", "yunikorn-scheduler"),
    KOORDINATOR: _scheduler("Koordinator's", "koordinator-system", "koord-scheduler"),
    SCHEDULER_PLUGINS: _scheduler("scheduler-plugins'", "scheduler-plugins", "scheduler-plugins-scheduler"),
    KAI: _scheduler("KAI's", "kai-scheduler", "kai-scheduler-default"),
}
