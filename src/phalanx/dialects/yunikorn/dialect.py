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
from hashlib import sha256
from typing import Any, Final

import msgspec

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Answer, Claim, Definitions, GroupClaim, Object, Objects, Said, Told
from phalanx.dialects.schema.queue import read_queue
from phalanx.dialects.yunikorn.access import Access, access_of, may_submit
from phalanx.dialects.yunikorn.checks import DEFAULT_PARTITION, read
from phalanx.dialects.yunikorn.configuration import (
    MOST_BYTES,
    Configuration,
    ConfigurationError,
    PlacementRule,
)
from phalanx.dialects.yunikorn.gangs import (
    GROUPS,
    QUEUE_PREFIX,
    SCHEDULER_NAME,
    USER,
    is_application,
    queue_of,
    words,
)
from phalanx.dialects.yunikorn.limits import LimitedGroups, counted_group, limited_groups, with_limits
from phalanx.dialects.yunikorn.placement import Application, place
from phalanx.dialects.yunikorn.queues import translate
from phalanx.model.reason import Reason, ReasonCode

NAMESPACE = "yunikorn"
# The ConfigMaps of YuniKorn's namespace alone: nobody else's are read.
CONFIGURATIONS = Kind(plural=f"namespaces/{NAMESPACE}/configmaps", name="ConfigMap", namespaced=False)
_MAPS = ("yunikorn-defaults", "yunikorn-configs")  # the second counts over the first
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say that there is a header of gzip
_FILE, _PACKED = "queues.yaml", "queues.yaml.gz"
_SHOWN = 256  # of a name that a pod asks for
_OUR_USER, _OUR_GROUP = "phalanx.dev/user", "phalanx.dev/group"
NONE: Objects = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class YuniKornDefinitions(Definitions):
    """`configuration`: as it is applied, with its checksum; None: there is none. `rules`: the placement rules. `named`:
    full name of a queue there -> name in our tree. `access`: who may submit to each. `limited`: the groups that limits
    name. `fault`: why the configuration cannot be read."""

    configuration: Configuration | None = None
    rules: tuple[PlacementRule, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    access: Access = field(default_factory=dict)
    limited: LimitedGroups = field(default_factory=dict)
    fault: str = ""


class YuniKorn:
    """`frame.Dialect` of YuniKorn."""

    name: Final = SCHEDULER_NAME
    scheduler_names: Final = frozenset({SCHEDULER_NAME})
    definition_kinds: Final[tuple[Kind, ...]] = (CONFIGURATIONS,)
    by_status: Final[Mapping[Kind, tuple[str, ...]]] = {}
    answer_kinds: Final[tuple[Kind, ...]] = ()
    crds: Final = ""
    policies: Final[tuple[tuple[Kind, Object], ...]] = ()

    def define(self, objects: Objects) -> YuniKornDefinitions:
        try:
            text = configuration_text(objects.get(CONFIGURATIONS, {}))
            return YuniKornDefinitions() if text is None else _definitions(_checked(text))
        except ConfigurationError as error:
            return YuniKornDefinitions(fault=f"{_FILE} is refused whole: {error}")

    def words(self, kind: str, meta: Mapping[str, Any], scheduler: str = "") -> Mapping[str, str]:
        return words(meta, scheduler) if kind == "Pod" else {}

    def claim(self, defined: YuniKornDefinitions, said: Said, objects: Objects = NONE) -> Claim | None:
        if not said.queue.startswith(QUEUE_PREFIX):
            return None
        if defined.fault:
            return Claim(queue=said.queue, blocked=Reason(code=ReasonCode.INVALID, text=defined.fault))
        group = GroupClaim() if is_application(said.options) else None
        if not defined.named:
            return Claim(queue="", group=group)
        groups = tuple(filter(None, said.options.get(GROUPS, "").split(",")))
        application = Application(
            queue=queue_of(said.queue, said.options),
            user=said.options.get(USER, "nobody"),
            groups=groups,
            tags={"namespace": said.namespace},
        )
        found = place(defined.rules, application, defined.named)
        if not found:
            asked = f" (asked for: {application.queue[:_SHOWN]!r})" if application.queue else ""
            text = f"no placement rule of {_FILE} gives it a queue{asked}: name one that is there, or add a rule"
            return Claim(queue=QUEUE_PREFIX + application.queue, blocked=Reason(code=ReasonCode.INVALID, text=text))
        if not may_submit(defined.access, found, application.user, groups):
            text = (
                f"the user {application.user[:_SHOWN]!r} may not submit to {found}: no submitacl or adminacl of it, "
                "or of a queue above it, names the user or one of its groups"
            )
            return Claim(queue=defined.named[found], blocked=Reason(code=ReasonCode.INVALID, text=text))
        whose = {_OUR_USER: application.user, _OUR_GROUP: counted_group(defined.limited, found, groups)}
        options = {key: text for key, text in whose.items() if text}
        return Claim(queue=defined.named[found], options=options, group=group)

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


def _checked(text: str) -> Configuration:
    """The configuration with YuniKorn's checksum of its text. Raises ConfigurationError."""
    return msgspec.structs.replace(read(text), checksum=sha256(text.encode()).hexdigest().upper())


def _definitions(found: Configuration) -> YuniKornDefinitions:
    queues = []
    translation = translate(found)
    for name, spec in translation.queues.items():
        above = {"parent": QUEUE_PREFIX + spec["parent"]} if "parent" in spec else {}
        queue = read_queue(QUEUE_PREFIX + name, {**spec, **above})
        queues.append(with_limits(queue, translation.limits.get(name, ())))
    partition = next((each for each in found.partitions if each.name == DEFAULT_PARTITION), None)
    named = {full: QUEUE_PREFIX + name for full, name in translation.names.items()}
    if partition is None:
        return YuniKornDefinitions(configuration=found, queues=tuple(queues), named=named)
    access = access_of(partition.queues or ())
    return YuniKornDefinitions(
        configuration=found,
        queues=tuple(queues),
        rules=partition.placement_rules,
        named=named,
        access=access,
        limited=limited_groups(partition.queues or ()),
    )
