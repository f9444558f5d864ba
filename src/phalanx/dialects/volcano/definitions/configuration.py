"""Read the configuration of Volcano's scheduler: its actions, its tiers of plugins, and the plugins' arguments.


The configuration is in a ConfigMap of the namespace `volcano-system`, under the key `volcano-scheduler.conf`. Without a
configuration, Queues share the cluster by weight, as with Volcano's own default. The amounts in `deserved` are then
guaranteed, and a Queue reclaims them from other Queues. The configuration determines whether jobs preempt and reclaim,
whether `deserved` or weights divide the cluster, and in which order jobs are tried. `volcano.settings` has a row for
each setting.

A configuration that cannot be read is treated as missing, and an event on the ConfigMap reports the error. (Volcano
keeps the last configuration that it could read.)


Source: pkg/scheduler/{conf,util.go} and pkg/scheduler/plugins of v1.15.1.

`read_zones` reads the NUMA zones of nodes, and the cpus of each zone, from Numatopologies.

Volcano's resource-exporter writes one Numatopology for each node, with the name of the node. Phalanx does not read the
free amounts of a zone (`numares`). They change with every pod, and Phalanx can compute them from the pods. A cpu that
is in no zone is left out.


Source: staging/src/volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1/numatopo_types.go of v1.15.1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.model.node import Zone

# Phalanx reads only ConfigMaps in Volcano's namespace.
CONFIGURATIONS: Final = Kind(plural="namespaces/volcano-system/configmaps", name="ConfigMap", namespaced=False)
FILE: Final = "volcano-scheduler.conf"
_MOST_CHARS: Final = 1 << 20
_PREEMPT: Final = frozenset({"preempt", "gangpreempt"})
_RECLAIM: Final = frozenset({"reclaim", "gangreclaim"})


class VolcanoConfigurationError(ValueError):
    """The configuration is invalid. The exception's text has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting in the configuration. `what`: `action`, `plugin` or `argument`. `name`: its name; the name of an
    argument begins with the name of its plugin."""

    what: str
    name: str
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoConfiguration:
    """The configuration of Volcano's scheduler. `actions`: the actions in order. `plugins`: the arguments and switches
    of each plugin. `said`: True if a configuration exists."""

    actions: tuple[str, ...] = ()
    plugins: Mapping[str, Mapping[str, object]]
    said: bool = True

    @property
    def preempts(self) -> bool:
        """Return whether the configuration allows jobs to preempt other jobs of the same queue."""
        return not _PREEMPT.isdisjoint(self.actions)

    @property
    def reclaims(self) -> bool:
        """Return whether queues reclaim their quota from other queues."""
        return not self.said or not _RECLAIM.isdisjoint(self.actions)

    @property
    def proportional(self) -> bool:
        """Return whether the cluster is divided by the weights of queues instead of by `deserved`."""
        return "proportion" in self.plugins

    @property
    def fair(self) -> bool:
        """Return whether the queue with the lowest share is tried first."""
        return not self.said or not self.plugins.keys().isdisjoint({"proportion", "capacity", "drf"})

    @property
    def by_priority(self) -> bool:
        """Return whether the jobs of a queue are ordered by priority, and by age only among jobs of the same
        priority."""
        return not self.said or "priority" in self.plugins


NONE: Final = VolcanoConfiguration(plugins={}, said=False)


def configuration(objects: Mapping[str, Object]) -> VolcanoConfiguration:
    """Return the configuration in the first ConfigMap, by name, that contains one; `NONE` if no ConfigMap does."""
    for name in sorted(objects):
        if (text := text_of(objects[name])) is not None:
            try:
                return read_configuration(text)
            except VolcanoConfigurationError:
                return NONE
    return NONE


def text_of(config_map: Object) -> str | None:
    """Return the text of the configuration in a ConfigMap; None if the ConfigMap contains no configuration."""
    text = (config_map.get("data") or {}).get(FILE)
    return None if text is None else str(text)


def read_configuration(text: str) -> VolcanoConfiguration:
    """Return the configuration that the text describes. Raise VolcanoConfigurationError if it is invalid."""
    try:
        found = yaml.safe_load(text) if len(text) <= _MOST_CHARS else None
    except (yaml.YAMLError, RecursionError) as error:
        raise VolcanoConfigurationError(f"{FILE} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, Mapping):
        raise VolcanoConfigurationError(f"{FILE} is not a mapping with actions and tiers")
    actions = tuple(filter(None, (one.strip() for one in str(found.get("actions") or "").split(","))))
    return VolcanoConfiguration(actions=actions, plugins=dict(_plugins(found.get("tiers"))))


def settings(found: VolcanoConfiguration) -> Iterator[Setting]:
    """Yield all settings of a configuration in order."""
    yield from (Setting(what="action", name=each) for each in found.actions)
    for plugin, arguments in found.plugins.items():
        yield Setting(what="plugin", name=plugin)
        for name, value in arguments.items():
            own = name if name.partition(".")[0] == plugin else f"{plugin}.{name}"
            yield Setting(what="argument", name=own, value=value)


# --- internal ---------------------------------------------------------------------------------------------------------


def _plugins(tiers: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    for tier in _mappings(tiers, "tiers"):
        for plugin in _mappings(tier.get("plugins"), "plugins"):
            arguments = plugin.get("arguments")
            switches = {str(key): value for key, value in plugin.items() if key not in ("name", "arguments")}
            said = {str(key): value for key, value in arguments.items()} if isinstance(arguments, Mapping) else {}
            yield str(plugin.get("name")), {**switches, **said}


def _mappings(listed: object, name: str) -> list[Mapping[str, object]]:
    found = listed or []
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise VolcanoConfigurationError(f"{FILE}: {name} is not a list of mappings")
    return found


_MILLI: Final = 1000
_MOST_NODES: Final = 1 << 14  # the size of a cache of parsed Numatopologies, many of which have equal contents


def read_zones(objects: Mapping[str, Object]) -> Mapping[str, tuple[Zone, ...]]:
    """Return the zones of each node that has zones."""
    found = {name: _zones(_detail(obj)) for name, obj in objects.items()}
    return {name: zones for name, zones in found.items() if zones}


# --- internal ---------------------------------------------------------------------------------------------------------


def _detail(obj: Object) -> bytes:
    return msgspec.json.encode((obj.get("spec") or {}).get("cpuDetail") or {})


@lru_cache(maxsize=_MOST_NODES)
def _zones(detail: bytes) -> tuple[Zone, ...]:
    cpus: Mapping[str, object] = msgspec.json.decode(detail, type=dict[str, Any])
    said = [each.get("numa") for each in cpus.values() if isinstance(each, Mapping)]
    counts = Counter(zone for zone in said if isinstance(zone, int))
    return tuple(Zone(name=str(zone), allocatable=(("cpu", counts[zone] * _MILLI),)) for zone in sorted(counts))
