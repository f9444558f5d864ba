"""The list of all dialects by name. A new dialect is added only here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.appwrapper.dialect import APP_WRAPPER_DIALECT
from phalanx.dialects.frame.dialect import Dialect, Figures, Journal, Occurrences, View
from phalanx.dialects.frameworks.replica_types import NAME as KUBEFLOW
from phalanx.dialects.kai.dialect import KAI
from phalanx.dialects.koordinator.dialect import KOORDINATOR
from phalanx.dialects.kubernetes.dialect import KUBERNETES
from phalanx.dialects.kueue.answers.figures import KueueFigures
from phalanx.dialects.kueue.answers.pending import GROUP as KUEUE_VISIBILITY
from phalanx.dialects.kueue.answers.pending import visible
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.dialects.kueue.events import occurrences
from phalanx.dialects.kueue.kinds import WORKLOADS
from phalanx.dialects.scheduler_plugins.dialect import SCHEDULER_PLUGINS
from phalanx.dialects.volcano.dialect import VOLCANO
from phalanx.dialects.yunikorn.dialect import YUNIKORN
from phalanx.dialects.yunikorn.journal import Journal as YuniKornJournal
from phalanx.dialects.yunikorn.rest import PATH as YUNIKORN_REST
from phalanx.dialects.yunikorn.rest import VALIDATE, dashboards, validated

DIALECTS: Final[Mapping[str, Dialect[Any]]] = {
    KUEUE.name: KUEUE,
    YUNIKORN.name: YUNIKORN,
    KOORDINATOR.name: KOORDINATOR,  # before scheduler-plugins, whose labels Koordinator's pods may have too
    SCHEDULER_PLUGINS.name: SCHEDULER_PLUGINS,
    VOLCANO.name: VOLCANO,
    KAI.name: KAI,
    KUBERNETES.name: KUBERNETES,
    APP_WRAPPER_DIALECT.name: APP_WRAPPER_DIALECT,
}
# The dialects of `phalanx scheduler --dialect`. AppWrapper is not one, because only `phalanx up` has its controller.
ON_CLUSTERS: Final = (*(name for name in DIALECTS if name != APP_WRAPPER_DIALECT.name), KUBEFLOW)


FIGURES: Final[Mapping[str, Callable[[], Figures[Any]]]] = {KUEUE.name: KueueFigures}
# dialect -> the kind of its answers that events are recorded about, and which
EVENTS: Final[Mapping[str, tuple[Kind, Occurrences]]] = {KUEUE.name: (WORKLOADS, occurrences)}
# dialect -> a function that makes its journal from the unique id of this process
JOURNALS: Final[Mapping[str, Callable[[str], Journal]]] = {YUNIKORN.name: YuniKornJournal}
# API group, or the first part of a path outside API groups -> (dialect, view)
VIEWS: Final[Mapping[str, tuple[str, View[Any]]]] = {
    KUEUE_VISIBILITY: (KUEUE.name, visible),
    YUNIKORN_REST: (YUNIKORN.name, dashboards),
}
# path -> a function that checks a posted text; its response does not depend on the scheduler's state
CHECKS: Final[Mapping[str, Callable[[bytes], dict[str, Any]]]] = {VALIDATE: validated}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """The program that a dialect replaces. `lease`: the Lease that the program's leader renews. `deployment`: its
    Deployment, if it has no Lease. `stop`: the command that stops it."""

    what: str
    namespace: str
    lease: str = ""
    deployment: str = ""
    stop: str


def _scheduler(whose: str, namespace: str, deployment: str) -> Rival:
    stop = f"kubectl -n {namespace} scale deployment {deployment} --replicas=0"
    return Rival(what=f"{whose} own scheduler", namespace=namespace, deployment=deployment, stop=stop)


RIVALS: Final[Mapping[str, Rival]] = {
    KUEUE.name: Rival(
        what="Kueue's own controller",
        namespace="kueue-system",
        lease="c1f6bfd2.kueue.x-k8s.io",
        stop="kubectl -n kueue-system scale deployment kueue-controller-manager --replicas=0",
    ),
    VOLCANO.name: _scheduler("Volcano's", "volcano-system", "volcano-scheduler"),
    YUNIKORN.name: _scheduler("YuniKorn's", "yunikorn", "yunikorn-scheduler"),
    KOORDINATOR.name: _scheduler("Koordinator's", "koordinator-system", "koord-scheduler"),
    SCHEDULER_PLUGINS.name: _scheduler("scheduler-plugins'", "scheduler-plugins", "scheduler-plugins-scheduler"),
    KAI.name: _scheduler("KAI's", "kai-scheduler", "kai-scheduler-default"),
}
