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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

import msgspec

from phalanx.client.kind import NAMESPACES, Kind
from phalanx.dialects.frame.dialect import Answer, Claim, Definitions, GroupClaim, Object, Objects, Said, Told
from phalanx.dialects.schema.queue import read_queue
from phalanx.dialects.yunikorn.checks import DEFAULT_PARTITION, read
from phalanx.dialects.yunikorn.configuration import (
    MOST_BYTES,
    Branch,
    Configuration,
    ConfigurationError,
    PlacementRule,
)
from phalanx.dialects.yunikorn.gangs import (
    GROUPS,
    QUEUE_PREFIX,
    SCHEDULER_NAME,
    USER,
    has_task_groups,
    is_application,
    queue_of,
    words,
)
from phalanx.dialects.yunikorn.limits import LimitedGroups, counted_group, limited_groups, with_limits
from phalanx.dialects.yunikorn.placement.made import Made, NamespaceTags, made, namespace_tags
from phalanx.dialects.yunikorn.placement.rules import Application, QueueTree, not_to_make, place, tree_of
from phalanx.dialects.yunikorn.queues import Translation, fair_leaves, translate, translate_made
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode

NAMESPACE = "yunikorn"
# The ConfigMaps of YuniKorn's namespace alone: nobody else's are read.
CONFIGURATIONS = Kind(plural=f"namespaces/{NAMESPACE}/configmaps", name="ConfigMap", namespaced=False)
_MAPS = ("yunikorn-defaults", "yunikorn-configs")  # the second counts over the first
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say that there is a header of gzip
_FILE, _PACKED = "queues.yaml", "queues.yaml.gz"
_SHOWN = 256  # of a name that a pod asks for
_NO_TAGS = NamespaceTags()
_OUR_USER, _OUR_GROUP = "phalanx.dev/user", "phalanx.dev/group"
NONE: Objects = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class YuniKornDefinitions(Definitions):
    """The definitions of YuniKorn. `configuration`: the applied configuration with its checksum; None: the cluster has
    none. `root`: the root queue of the partition `default`; None: the configuration lacks that partition. `rules`: its
    placement rules. `tree`: its queues, prepared for the placement rules. `named`: full name of a YuniKorn queue ->
    name of the Phalanx Queue. `limited`: the groups that limits name. `reclaims`: whether the partition preempts.
    `fair`: the leaves that sort by share. `spaces`: the annotations of namespaces. `fault`: the error for which the
    configuration is invalid."""

    configuration: Configuration | None = None
    root: Branch | None = None
    rules: tuple[PlacementRule, ...] = ()
    tree: QueueTree = field(default_factory=QueueTree)
    named: Mapping[str, str] = field(default_factory=dict)
    limited: LimitedGroups = field(default_factory=dict)
    reclaims: bool = True
    fair: frozenset[str] = frozenset()
    spaces: Mapping[str, NamespaceTags] = field(default_factory=dict)
    fault: str = ""

    def made(self, queue: str, namespace: str) -> Made | None:
        """Return the queues that are made for one of that full name; None: it is written, or cannot be made."""
        if queue in self.named or self.root is None or not_to_make(queue, self.tree):
            return None
        return made(self.root, queue, self.spaces.get(namespace, _NO_TAGS))

    def sharing(self, found: Made | None) -> frozenset[str]:
        """Return the leaves that sort their applications by share: of those that are written, or that are made."""
        if found is None:
            return self.fair
        return frozenset(fair_leaves(found.branch, f"{found.above}.", found.properties))


class YuniKorn:
    """`frame.Dialect` of YuniKorn."""

    name: Final = SCHEDULER_NAME
    scheduler_names: Final = frozenset({SCHEDULER_NAME})
    definition_kinds: Final[tuple[Kind, ...]] = (NAMESPACES, CONFIGURATIONS)
    by_status: Final[Mapping[Kind, tuple[str, ...]]] = {}
    answer_kinds: Final[tuple[Kind, ...]] = ()
    crds: Final = ""
    policies: Final[tuple[tuple[Kind, Object], ...]] = ()

    def define(self, objects: Objects) -> YuniKornDefinitions:
        try:
            text = configuration_text(objects.get(CONFIGURATIONS, {}))
            found = YuniKornDefinitions() if text is None else _definitions(text)
        except ConfigurationError as error:
            return YuniKornDefinitions(fault=f"{_FILE} is refused whole: {error}")
        tags = {name: namespace_tags(one) for name, one in objects.get(NAMESPACES, {}).items()}
        return replace(found, spaces={name: said for name, said in tags.items() if said != _NO_TAGS})

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
            tags={"namespace": said.namespace, "namespace.parentqueue": parent_of(defined, said.namespace)},
        )
        placed = place(defined.rules, application, defined.tree)
        if not placed.queue:
            asked = f" (asked for: {application.queue[:_SHOWN]!r})" if application.queue else ""
            no_rule = f"no placement rule of {_FILE} gives it a queue{asked}"
            text = f"{no_rule}: {placed.fault or 'name one that is there, or add a rule'}"
            return Claim(queue=QUEUE_PREFIX + application.queue, blocked=Reason(code=ReasonCode.INVALID, text=text))
        written = defined.tree.nearest(placed.queue)
        whose = {_OUR_USER: application.user, _OUR_GROUP: counted_group(defined.limited, written, groups)}
        options = {key: text for key, text in whose.items() if text}
        made_for_it = defined.made(placed.queue, said.namespace)
        if has_task_groups(said.options) and placed.queue in defined.sharing(made_for_it):
            text = (
                f"a gang of task groups needs a queue whose application.sort.policy is fifo: that of {placed.queue} is "
                "fair; change it, or name another queue"
            )
            return Claim(queue=defined.named[written], blocked=Reason(code=ReasonCode.INVALID, text=text))
        queues = () if made_for_it is None else _made_queues(made_for_it, reclaim=defined.reclaims)
        return Claim(queue=QUEUE_PREFIX + placed.queue, options=options, group=group, queues=queues)

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
    """Return the text of the queue configuration in these ConfigMaps (by `namespace/name`); None: no ConfigMap holds
    one. Raises ConfigurationError."""
    found = None
    for name in _MAPS:
        config_map = config_maps.get(f"{NAMESPACE}/{name}") or {}
        plain, packed = config_map.get("data") or {}, config_map.get("binaryData") or {}
        if _PACKED in packed:
            found = unpacked(packed[_PACKED])
        if _FILE in plain:
            found = str(plain[_FILE])
    return found


def parent_of(defined: YuniKornDefinitions, namespace: str) -> str:
    """Return the queue that the namespace names as the parent of its own."""
    return defined.spaces.get(namespace, _NO_TAGS).parent


def unpacked(data: str) -> str:
    """Return the text of a value in base64 and gzip, no more of it than a configuration may have. Raises
    ConfigurationError."""
    try:
        return zlib.decompressobj(_GZIP).decompress(base64.b64decode(data), MOST_BYTES + 1).decode()
    except (ValueError, zlib.error) as error:
        raise ConfigurationError(1, f"{_PACKED} cannot be unpacked: {error}") from None


# --- inside -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)  # namespaces come and go, the configuration stays
def _definitions(text: str) -> YuniKornDefinitions:
    """Raises ConfigurationError."""
    found = msgspec.structs.replace(read(text), checksum=sha256(text.encode()).hexdigest().upper())
    translation = translate(found)
    queues, named = tuple(_queues(translation)), {full: QUEUE_PREFIX + full for full in translation.names}
    partition = next((each for each in found.partitions if each.name == DEFAULT_PARTITION), None)
    if partition is None:
        return YuniKornDefinitions(configuration=found, queues=queues, named=named)
    roots = partition.queues or ()
    return YuniKornDefinitions(
        configuration=found,
        queues=queues,
        root=roots[0],
        rules=partition.placement_rules,
        tree=tree_of(roots),
        named=named,
        limited=limited_groups(roots),
        reclaims=partition.preemption.enabled is not False,
        fair=frozenset(fair_leaves(roots[0], "", {})),
    )


def _made_queues(found: Made, *, reclaim: bool) -> tuple[Queue, ...]:
    translation = translate_made(found.branch, found.properties, reclaim=reclaim)
    return tuple(_queues(translation, above=found.above))


def _queues(translation: Translation, above: str = "") -> Iterator[Queue]:
    """Yield the queues under their full names, parents first. `above`: the full name of the parent of the first."""
    for full, name in translation.names.items():
        whole = f"{above}.{full}" if above else full
        parent = whole.rpartition(".")[0]
        over = {"parent": QUEUE_PREFIX + parent} if parent else {}
        queue = read_queue(QUEUE_PREFIX + whole, {**translation.queues[name], **over})
        yield with_limits(queue, translation.limits.get(name, ()))
