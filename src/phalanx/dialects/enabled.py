"""The dialects of the frame, by name: the one place where a dialect is entered."""

from __future__ import annotations

from collections.abc import Mapping
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
