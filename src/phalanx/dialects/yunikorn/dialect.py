"""YuniKorn, as one dialect of the frame: its ConfigMap as queues, pods with `schedulerName: yunikorn` as jobs.

It has no kinds of its own, so that there is nothing to answer on: a pod's condition PodScheduled and its events say
why it waits, as of every pod.

Without a configuration its pods are in the queue of those who name none. A configuration that YuniKorn would refuse has
no queues here: its jobs wait with the line as their reason. (YuniKorn keeps the last valid one until it is started
anew, and then does not start.)
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame import Answer, Claim, Definitions, Object, Objects, Said, Told
from phalanx.dialects.queue import read_queue
from phalanx.dialects.yunikorn.checks import DEFAULT_PARTITION, read
from phalanx.dialects.yunikorn.configuration import (
    MOST_BYTES,
    Configuration,
    ConfigurationError,
    PlacementRule,
)
from phalanx.dialects.yunikorn.gangs import GROUPS, QUEUE_PREFIX, SCHEDULER_NAME, USER, words
from phalanx.dialects.yunikorn.placement import Application, place
from phalanx.dialects.yunikorn.queues import translate
from phalanx.model.reason import Reason, ReasonCode

NAMESPACE = "yunikorn"
# The ConfigMaps of YuniKorn's namespace alone: nobody else's are read.
CONFIGURATIONS = Kind(plural=f"namespaces/{NAMESPACE}/configmaps", name="ConfigMap", namespaced=False)
_MAPS = ("yunikorn-defaults", "yunikorn-configs")  # the second counts over the first
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say that there is a header of gzip
_FILE, _PACKED = "queues.yaml", "queues.yaml.gz"
NONE: Objects = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class YuniKornDefinitions(Definitions):
    """`rules`: the placement rules. `named`: full name of a queue there -> name in our tree. `fault`: why the
    configuration cannot be read."""

    rules: tuple[PlacementRule, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""


class YuniKorn:
    """`frame.Dialect` of YuniKorn."""

    name: Final = SCHEDULER_NAME
    scheduler_names: Final = frozenset({SCHEDULER_NAME})
    definition_kinds: Final[tuple[Kind, ...]] = (CONFIGURATIONS,)
    by_status: Final[frozenset[Kind]] = frozenset()
    answer_kinds: Final[tuple[Kind, ...]] = ()
    crds: Final = ""
    policies: Final[tuple[tuple[Kind, Object], ...]] = ()

    def define(self, objects: Objects) -> YuniKornDefinitions:
        try:
            text = configuration_text(objects.get(CONFIGURATIONS, {}))
            return YuniKornDefinitions() if text is None else _definitions(read(text))
        except ConfigurationError as error:
            return YuniKornDefinitions(fault=f"{_FILE} is refused whole: {error}")

    def words(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return words(meta, scheduler) if kind == "Pod" else {}

    def claim(self, defined: YuniKornDefinitions, said: Said, objects: Objects = NONE) -> Claim | None:
        if not said.queue.startswith(QUEUE_PREFIX):
            return None
        if defined.fault:
            return Claim(queue=said.queue, blocked=Reason(code=ReasonCode.INVALID, text=defined.fault))
        if not defined.named:
            return Claim(queue="")
        groups = tuple(filter(None, said.options.get(GROUPS, "").split(",")))
        application = Application(
            queue=said.queue.removeprefix(QUEUE_PREFIX),
            user=said.options.get(USER, "nobody"),
            groups=groups,
            tags={"namespace": said.namespace},
        )
        found = place(defined.rules, application, defined.named)
        if not found:
            asked = f" (asked for: {application.queue!r})" if application.queue else ""
            text = f"no placement rule of {_FILE} gives it a queue{asked}: name one that is there, or add a rule"
            return Claim(queue=said.queue, blocked=Reason(code=ReasonCode.INVALID, text=text))
        return Claim(queue=defined.named[found])

    def gang_of(self, answer: Object) -> str:
        return ""

    def notes(self, kind: str, obj: Object) -> Iterable[str]:
        return ()

    def answer(self, defined: YuniKornDefinitions, told: Told, objects: Objects, now: str) -> Iterable[Answer]:
        return ()

    def statuses(
        self, defined: YuniKornDefinitions, everyone: Iterable[Told], objects: Objects, now: str
    ) -> Iterable[Answer]:
        return ()


YUNIKORN: Final = YuniKorn()


def configuration_text(config_maps: Mapping[str, Object]) -> str | None:
    """Return the queue configuration that counts of these ConfigMaps (by `namespace/name`); None: there is none. Raises
    ConfigurationError."""
    found = None
    for name in _MAPS:
        config_map = config_maps.get(f"{NAMESPACE}/{name}") or {}
        plain, packed = config_map.get("data") or {}, config_map.get("binaryData") or {}
        if _PACKED in packed:
            found = unpacked(packed[_PACKED])
        if _FILE in plain:
            found = str(plain[_FILE])
    return found


def unpacked(data: str) -> str:
    """Return the text of a value in base64 and gzip, no more of it than a configuration may have. Raises
    ConfigurationError."""
    try:
        return zlib.decompressobj(_GZIP).decompress(base64.b64decode(data), MOST_BYTES + 1).decode()
    except (ValueError, zlib.error) as error:
        raise ConfigurationError(1, f"{_PACKED} cannot be unpacked: {error}") from None


# --- inside -----------------------------------------------------------------------------------------------------------


def _definitions(found: Configuration) -> YuniKornDefinitions:
    queues = []
    translation = translate(found)
    for name, spec in translation.queues.items():
        above = {"parent": QUEUE_PREFIX + spec["parent"]} if "parent" in spec else {}
        queues.append(read_queue(QUEUE_PREFIX + name, {**spec, **above}))
    rules = next((each.placement_rules for each in found.partitions if each.name == DEFAULT_PARTITION), ())
    named = {full: QUEUE_PREFIX + name for full, name in translation.names.items()}
    return YuniKornDefinitions(queues=tuple(queues), rules=rules, named=named)
