"""The dialects of the frame, by name: the one place where a dialect is entered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from phalanx.dialects.appwrapper.dialect import APP_WRAPPER_DIALECT
from phalanx.dialects.frame import Dialect
from phalanx.dialects.kai.dialect import KAI
from phalanx.dialects.koordinator.dialect import KOORDINATOR
from phalanx.dialects.kueue.dialect import KUEUE
from phalanx.dialects.scheduler_plugins.dialect import SCHEDULER_PLUGINS
from phalanx.dialects.volcano.dialect import VOLCANO
from phalanx.dialects.yunikorn.dialect import YUNIKORN

DIALECTS: Final[Mapping[str, Dialect[Any]]] = {
    KUEUE.name: KUEUE,
    YUNIKORN.name: YUNIKORN,
    KOORDINATOR.name: KOORDINATOR,  # before the next, whose words its pods may carry as well
    SCHEDULER_PLUGINS.name: SCHEDULER_PLUGINS,
    VOLCANO.name: VOLCANO,
    KAI.name: KAI,
    APP_WRAPPER_DIALECT.name: APP_WRAPPER_DIALECT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """The controller that a dialect takes the place of. `lease`: that its leader renews. `stop`: what ends it."""

    what: str
    namespace: str
    lease: str
    stop: str


RIVALS: Final[Mapping[str, Rival]] = {
    KUEUE.name: Rival(
        what="Kueue's own controller",
        namespace="kueue-system",
        lease="c1f6bfd2.kueue.x-k8s.io",
        stop="kubectl -n kueue-system scale deployment kueue-controller-manager --replicas=0",
    )
}
