"""The configuration of Volcano's scheduler: actions, tiers of plugins, and their arguments.


The configuration is in a ConfigMap of the namespace `volcano-system`, under `volcano-scheduler.conf`. Without one,
Queues share by weight, as with Volcano's own default, and `deserved` is guaranteed and reclaimed. The configuration
sets whether jobs preempt and reclaim, whether `deserved` or weights divide the cluster, and the order of jobs.
`volcano.settings` has a row for each setting.

An unreadable file counts as missing, and an event on the ConfigMap reports it. (Volcano keeps the last readable file.)


Source: pkg/scheduler/{conf,util.go} and pkg/scheduler/plugins of v1.15.1.

Numatopologies: the NUMA zones of nodes, with the cpus of each.

Volcano's resource-exporter writes one object per node, with the node's name. The free part of a zone (`numares`) is not
read, because it changes with every pod and follows from the pods. A cpu without a zone is left out.


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

# Only ConfigMaps of Volcano's namespace are read.
CONFIGURATIONS: Final = Kind(plural="namespaces/volcano-system/configmaps", name="ConfigMap", namespaced=False)
FILE: Final = "volcano-scheduler.conf"
_MOST_CHARS: Final = 1 << 20
_PREEMPT: Final = frozenset({"preempt", "gangpreempt"})
_RECLAIM: Final = frozenset({"reclaim", "gangreclaim"})


class VolcanoConfigurationError(ValueError):
    """The file is invalid. The text has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting. `what`: `action`, `plugin` or `argument`. `name`: an argument's name begins with its plugin's
    name."""

    what: str
    name: str
    value: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoConfiguration:
    """The configuration. `actions`: in order. `plugins`: plugin -> its arguments and switches. `said`: a configuration
    exists."""

    actions: tuple[str, ...] = ()
    plugins: Mapping[str, Mapping[str, Any]]
    said: bool = True

    @property
    def preempts(self) -> bool:
        """Return whether jobs may preempt other jobs of the same queue."""
        return not _PREEMPT.isdisjoint(self.actions)

    @property
    def reclaims(self) -> bool:
        """Return whether queues reclaim their quota from other queues."""
        return not self.said or not _RECLAIM.isdisjoint(self.actions)

    @property
    def proportional(self) -> bool:
        """Return whether weights divide the cluster, and not `deserved`."""
        return "proportion" in self.plugins

    @property
    def fair(self) -> bool:
        """Return whether the queue with the lowest share comes first."""
        return not self.said or not self.plugins.keys().isdisjoint({"proportion", "capacity", "drf"})

    @property
    def by_priority(self) -> bool:
        """Return whether the jobs of a queue are ordered by priority before age."""
        return not self.said or "priority" in self.plugins


NONE: Final = VolcanoConfiguration(plugins={}, said=False)


def configuration(objects: Mapping[str, Object]) -> VolcanoConfiguration:
    """Return the configuration in the first ConfigMap by name that has one; `NONE` if there is none."""
    for name in sorted(objects):
        if (text := text_of(objects[name])) is not None:
            try:
                return read_configuration(text)
            except VolcanoConfigurationError:
                return NONE
    return NONE


def text_of(config_map: Object) -> str | None:
    """Return the text of the file in a ConfigMap; None if it has no such file."""
    text = (config_map.get("data") or {}).get(FILE)
    return None if text is None else str(text)


def read_configuration(text: str) -> VolcanoConfiguration:
    """Return the configuration in the text of the file. Raises VolcanoConfigurationError."""
    try:
        found = yaml.safe_load(text) if len(text) <= _MOST_CHARS else None
    except (yaml.YAMLError, RecursionError) as error:
        raise VolcanoConfigurationError(f"{FILE} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, Mapping):
        raise VolcanoConfigurationError(f"{FILE} is no mapping with actions and tiers")
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


# --- inside -----------------------------------------------------------------------------------------------------------


def _plugins(tiers: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tier in _mappings(tiers, "tiers"):
        for plugin in _mappings(tier.get("plugins"), "plugins"):
            arguments = plugin.get("arguments")
            switches = {str(key): value for key, value in plugin.items() if key not in ("name", "arguments")}
            said = {str(key): value for key, value in arguments.items()} if isinstance(arguments, Mapping) else {}
            yield str(plugin.get("name")), {**switches, **said}


def _mappings(listed: Any, name: str) -> list[Mapping[str, Any]]:
    found = listed or []
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise VolcanoConfigurationError(f"{FILE}: {name} is no list of mappings")
    return found


_MILLI: Final = 1000
_MOST_NODES: Final = 1 << 14  # the size of the cache; objects change often, and many nodes have equal zones


def read_zones(objects: Mapping[str, Object]) -> Mapping[str, tuple[Zone, ...]]:
    """Return the zones of each node with zones."""
    found = {name: _zones(_detail(obj)) for name, obj in objects.items()}
    return {name: zones for name, zones in found.items() if zones}


# --- inside -----------------------------------------------------------------------------------------------------------


def _detail(obj: Object) -> bytes:
    return msgspec.json.encode((obj.get("spec") or {}).get("cpuDetail") or {})


@lru_cache(maxsize=_MOST_NODES)
def _zones(detail: bytes) -> tuple[Zone, ...]:
    cpus: Mapping[str, Any] = msgspec.json.decode(detail, type=dict[str, Any])
    said = [each.get("numa") for each in cpus.values() if isinstance(each, Mapping)]
    counts = Counter(zone for zone in said if isinstance(zone, int))
    return tuple(Zone(name=str(zone), allocatable=(("cpu", counts[zone] * _MILLI),)) for zone in sorted(counts))
