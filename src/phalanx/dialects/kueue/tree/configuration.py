"""Kueue's `Configuration`, as its controller reads it from the ConfigMap `kueue-manager-config` of `kueue-system`.

What decides about jobs is carried out; what configures Kueue's own process has no effect. Where there is no such
ConfigMap, Kueue's defaults hold.

Source: apis/config/v1beta2/configuration_types.go of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.schema.depth import require_shallow
from phalanx.dialects.schema.fields import Misread, duration_s

# The ConfigMaps of Kueue's namespace alone: nobody else's are read.
CONFIGURATIONS = Kind(plural="namespaces/kueue-system/configmaps", name="ConfigMap", namespaced=False)
_KEY = "kueue-system/kueue-manager-config"
_FILE = "controller_manager_config.yaml"
START_TIMEOUT_S = 1800.0  # waitForPodsReady.timeout; it is on since 0.19 unless switched off


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """`fair`: fair sharing is on. `strategies`: its preemption strategies, in order. `start_timeout_s`: how long the
    pods of an admitted job may take to become ready. `excluded`: prefixes of resources that no quota counts. `fault`:
    why it cannot be read; Kueue's defaults hold then."""

    fair: bool = False
    strategies: tuple[str, ...] = ()
    start_timeout_s: float = START_TIMEOUT_S
    excluded: tuple[str, ...] = ()
    fault: str = ""


DEFAULTS = Configuration()


def configuration(objects: Mapping[str, Object]) -> Configuration:
    """Return the configuration that stands in one of these ConfigMaps (by `namespace/name`)."""
    text = ((objects.get(_KEY) or {}).get("data") or {}).get(_FILE)
    if text is None:
        return DEFAULTS
    try:
        require_shallow(text)
        said = msgspec.yaml.decode(text)
    except (yaml.YAMLError, msgspec.MsgspecError, ValueError) as error:
        return Configuration(fault=f"{_KEY} is no YAML: {error}")
    if not isinstance(said, Mapping):
        return Configuration(fault=f"{_KEY} is not a mapping")
    return read_configuration(said)


def read_configuration(said: Mapping[str, Any]) -> Configuration:
    """Return what the fields of a Configuration say."""
    fair = said.get("fairSharing")
    wait, resources = said.get("waitForPodsReady") or {}, said.get("resources") or {}
    fault, timeout_s = "", START_TIMEOUT_S
    try:
        timeout_s = duration_s(wait["timeout"]) if "timeout" in wait else timeout_s
    except Misread as error:
        fault = f"waitForPodsReady.timeout: {error}"
    return Configuration(
        fair=isinstance(fair, Mapping) and fair.get("enable", True) is not False,
        strategies=tuple(map(str, (fair or {}).get("preemptionStrategies") or ())),
        start_timeout_s=timeout_s,
        excluded=tuple(map(str, resources.get("excludeResourcePrefixes") or ())),
        fault=fault,
    )
