"""Combine the parts of the YuniKorn dialect into one `frame.Dialect`. YuniKorn's ConfigMap becomes queues, and pods
with `schedulerName: yunikorn` become jobs.

YuniKorn has no kinds of its own. So the condition PodScheduled and events on a pod show why the pod waits, as for every
pod. If YuniKorn would reject an application, the application's pods fail, as in YuniKorn. If there is no configuration,
all pods are in the default queue. As in YuniKorn, an invalid configuration has no effect, and the last valid
configuration stays in effect. After a restart of the scheduler there is no earlier configuration. Then the jobs wait,
and their reason names the line with the error. (YuniKorn itself does not start in this case.)
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import Final

import msgspec

from phalanx.client.kind import NAMESPACES, PODS, PRIORITY_CLASSES, Kind
from phalanx.client.moment import read_moment
from phalanx.dialects.frame.dialect import (
    Answer,
    Claim,
    Definitions,
    Dialect,
    GangStage,
    GangView,
    GroupClaim,
    Object,
    Objects,
    Said,
    of_pods,
)
from phalanx.dialects.schema.queue import read_queue
from phalanx.dialects.yunikorn.checks import DEFAULT_PARTITION, read
from phalanx.dialects.yunikorn.configuration import (
    MOST_BYTES,
    PlacementRule,
    QueueBranch,
    YuniKornConfiguration,
    YuniKornConfigurationError,
)
from phalanx.dialects.yunikorn.gangs import (
    GIVEN_UP,
    GROUPS,
    HARD,
    OF_APPLICATION,
    QUEUE_OPTION,
    QUEUE_PREFIX,
    SCHEDULER_NAME,
    SOFT,
    USER,
    classes_that_opt_out,
    gang_asks,
    has_failed,
    has_task_groups,
    hold_s,
    is_application,
    is_given_up,
    is_hard,
    notes,
    options_of,
    opts_out,
    queue_of,
    timeout_s,
)
from phalanx.dialects.yunikorn.placement import (
    Application,
    MadeQueues,
    NamespaceTags,
    PlacementTree,
    made,
    namespace_tags,
    not_to_make,
    place,
    tree_of,
)
from phalanx.dialects.yunikorn.queues import (
    LimitedGroups,
    Translation,
    counted_group,
    fair_leaves,
    limited_groups,
    translate,
    translate_made,
    with_limits,
)
from phalanx.model.job import GangSize
from phalanx.model.queue import NO_PREEMPTION, Queue
from phalanx.model.reason import Reason, ReasonCode

NAMESPACE = "yunikorn"
# Phalanx reads only ConfigMaps in YuniKorn's namespace.
CONFIGURATIONS = Kind(plural=f"namespaces/{NAMESPACE}/configmaps", name="ConfigMap", namespaced=False)
_MAPS = ("yunikorn-defaults", "yunikorn-configs")  # the values of the second ConfigMap take precedence
_GZIP = 16 + zlib.MAX_WBITS  # the value with which zlib expects a gzip header
_FILE, _PACKED = "queues.yaml", "queues.yaml.gz"
_SHOWN = 256  # the largest number of characters of a queue's name that messages show
_NO_TAGS = NamespaceTags()
_OUR_USER, _OUR_GROUP = "phalanx.dev/user", "phalanx.dev/group"
_LAST_VICTIM, _SIZE = "phalanx.dev/last-victim", "phalanx.dev/size"
_TIMED_OUT = "Scheduling has timed out due to insufficient resources"
# Kinds of owners that replace failed pods without end.
_MADE_ANEW = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"})


@dataclass(frozen=True, slots=True, kw_only=True)
class YuniKornDefinitions(Definitions):
    """The definitions of YuniKorn. `configuration`: the applied configuration with its checksum; None if the cluster
    has no configuration. `root`: the root queue of the partition `default`; None if the configuration lacks this
    partition. `rules`: the placement rules of the partition. `tree`: the queues of the partition, prepared for the
    placement rules. `named`: a map from the full name of a YuniKorn queue to the name of its Phalanx Queue. `limited`:
    the groups that limits name. `reclaims`: True if the partition preempts. `fair`: the leaf queues that sort
    applications by share. `spaces`: the annotations of namespaces. `unwilling`: the PriorityClasses whose pods request
    not to be preempted."""

    configuration: YuniKornConfiguration | None = None
    root: QueueBranch | None = None
    rules: tuple[PlacementRule, ...] = ()
    tree: PlacementTree = field(default_factory=PlacementTree)
    named: Mapping[str, str] = field(default_factory=dict)
    limited: LimitedGroups = field(default_factory=dict)
    reclaims: bool = True
    fair: frozenset[str] = frozenset()
    spaces: Mapping[str, NamespaceTags] = field(default_factory=dict)
    unwilling: frozenset[str] = frozenset()

    def made(self, queue: str, namespace: str) -> MadeQueues | None:
        """Return the queues that must be created so that the queue with this full name exists. Return None if the
        configuration contains the queue, or if the queue cannot be created."""
        if queue in self.named or self.root is None or not_to_make(queue, self.tree):
            return None
        return made(self.root, queue, self.spaces.get(namespace, _NO_TAGS))

    def sharing(self, found: MadeQueues | None) -> frozenset[str]:
        """Return the leaf queues that sort their applications by share. They are leaves of the configuration or, if
        `found` is given, leaves that were created for an application."""
        if found is None:
            return self.fair
        return frozenset(fair_leaves(found.branch, f"{found.above}.", found.properties))


def _define(objects: Objects) -> YuniKornDefinitions:
    try:
        text = configuration_text(objects.get(CONFIGURATIONS, {}))
        found = YuniKornDefinitions() if text is None else _definitions(text)
    except YuniKornConfigurationError as error:
        at = next((key for key in _maps_with_queues(objects.get(CONFIGURATIONS, {}))), "")
        return YuniKornDefinitions(fault=f"{_FILE} is invalid as a whole: {error}", fault_at=(CONFIGURATIONS, at))
    tags = {name: namespace_tags(one) for name, one in objects.get(NAMESPACES, {}).items()}
    return replace(
        found,
        spaces={name: said for name, said in tags.items() if said != _NO_TAGS},
        unwilling=classes_that_opt_out(objects.get(PRIORITY_CLASSES, {})),
    )


def _claim(defined: YuniKornDefinitions, said: Said, objects: Objects) -> Claim | None:
    if not said.queue.startswith(QUEUE_PREFIX):
        return None
    if defined.fault:
        return Claim(queue=said.queue, blocked=Reason(code=ReasonCode.INVALID, text=defined.fault))
    as_pods = is_application(said.options) or is_given_up(said.options)
    group = GroupClaim(by_priority=True) if as_pods else None
    spared = {_LAST_VICTIM: "true"} if opts_out(said.options, defined.unwilling) else {}
    if not defined.named:
        return Claim(queue="", group=group, options=spared)
    found = submit(defined, said.namespace, said.queue, said.options)
    if found.fault or has_failed(said.options):
        queue = defined.named.get(found.queue, QUEUE_PREFIX + found.queue)
        return Claim(queue=queue, blocked=Reason(code=ReasonCode.INVALID, text=found.fault or _TIMED_OUT))
    options = {**{key: text for key, text in found.whose.items() if text}, **spared}
    queue, queues = QUEUE_PREFIX + found.queue, found.queues
    if found.by_share and as_pods:
        own = _own_queue(queue, said.gang, {each.name: each for each in (*defined.queues, *queues)})
        queue, queues = own.name, (*queues, own)
    elif as_pods:
        options[_SIZE] = GangSize.IN_TURN
    return Claim(queue=queue, options=options, group=group, queues=queues, hold_s=hold_s(said.options))


def _answer(defined: YuniKornDefinitions, told: GangView, objects: Objects, now: str) -> Iterable[Answer]:
    """Yield the changes to the pods of an application that waits. If the application is rejected, or if its gang has
    waited for too long, its pods fail or get an annotation with which they start one by one. Otherwise the changes are
    computed again when the gang's waiting time is over."""
    if told.stage is not GangStage.WAITING or defined.fault:
        return
    pods = [pod for pod in told.owners if pod.get("kind") == PODS.name and _waits(pod)]
    if defined.named and pods:
        queue = told.options.get(QUEUE_OPTION, QUEUE_PREFIX)
        if fault := submit(defined, told.namespace, queue, told.options).fault:
            yield from _failed(pods, "ApplicationRejected", fault)
            return
    if has_failed(told.options):
        yield from _failed(pods, "ResourceReservationTimeout", _TIMED_OUT)
        return
    within_s = timeout_s(told.options) if has_task_groups(told.options) else None
    if within_s is None or not pods:
        return
    if (due_s := told.created_s + within_s) > read_moment(now):
        yield Answer(kind=PODS, key=_key(pods[0]), again_s=due_s)
    else:  # a gang with annotated pods does not start, so annotate all pods before the first one fails
        mark = {GIVEN_UP: HARD if is_hard(told.options) else SOFT}
        yield from (Answer(kind=PODS, key=_key(pod), annotations=mark) for pod in pods)


YUNIKORN: Final = Dialect(
    name=SCHEDULER_NAME,
    scheduler_names=frozenset({SCHEDULER_NAME}),
    definition_kinds=(NAMESPACES, CONFIGURATIONS, PRIORITY_CLASSES),
    define=_define,
    options_of=of_pods(options_of),
    claim=_claim,
    notes=notes,
    answer=_answer,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The result of submitting an application. `queue`: the full name of its queue; for a rejected application, the
    full name of the queue that it names. `fault`: why the application is rejected; empty if it is not rejected.
    `whose`: the options with its user and group. `queues`: the queues that are created for it. `by_share`: True if its
    queue has the sort policy `fair`, so that the application with the lowest share is next."""

    queue: str
    fault: str = ""
    whose: Mapping[str, str] = field(default_factory=dict)
    queues: tuple[Queue, ...] = ()
    by_share: bool = False


def submit(defined: YuniKornDefinitions, namespace: str, queue: str, options: Mapping[str, str]) -> Submission:
    """Return the result of submitting an application with these options. `queue`: the application's queue option."""
    groups = tuple(filter(None, options.get(GROUPS, "").split(",")))
    application = Application(
        queue=queue_of(queue, options),
        user=options.get(USER, "nobody"),
        groups=groups,
        tags={"namespace": namespace, "namespace.parentqueue": parent_of(defined, namespace)},
    )
    placed = place(defined.rules, application, defined.tree)
    if not placed.queue:
        asked = f" (asked for: {application.queue[:_SHOWN]!r})" if application.queue else ""
        no_rule = f"no placement rule of {_FILE} returns a queue for the application{asked}"
        text = f"{no_rule}: {placed.fault or 'name an existing queue, or add a rule'}"
        return Submission(queue=application.queue, fault=text)
    written = defined.tree.nearest(placed.queue)
    made_for_it = defined.made(placed.queue, namespace)
    queues = () if made_for_it is None else _made_queues(made_for_it, reclaim=defined.reclaims)
    by_share = placed.queue in defined.sharing(made_for_it)
    if has_task_groups(options):
        text = ""
        if by_share:
            text = (
                "a gang with task groups needs a queue whose application.sort.policy is fifo, but "
                f"{placed.queue} has fair: change it, or name another queue"
            )
        elif larger := _too_large(gang_asks(options), placed.queue, (*defined.queues, *queues)):
            text = f"its task groups together request more {larger} than the queue {placed.queue} may ever have"
        if text:
            return Submission(queue=written, fault=text)
    return Submission(
        queue=placed.queue,
        whose={_OUR_USER: application.user, _OUR_GROUP: counted_group(defined.limited, written, groups)},
        queues=queues,
        by_share=by_share,
    )


def configuration_text(config_maps: Mapping[str, Object]) -> str | None:
    """Return the text of the queue configuration in these ConfigMaps (by `namespace/name`); None if no ConfigMap
    contains a queue configuration. Raise YuniKornConfigurationError if the text cannot be read."""
    found = None
    for name in _MAPS:
        config_map = config_maps.get(f"{NAMESPACE}/{name}") or {}
        plain, packed = config_map.get("data") or {}, config_map.get("binaryData") or {}
        if _PACKED in packed:
            found = unpacked(packed[_PACKED])
        if _FILE in plain:
            found = str(plain[_FILE])
    return found


def _maps_with_queues(config_maps: Mapping[str, Object]) -> Iterator[str]:
    """Yield the ConfigMaps that contain a queue configuration. The first one is used."""
    for name in reversed(_MAPS):
        config_map = config_maps.get(f"{NAMESPACE}/{name}") or {}
        if _FILE in (config_map.get("data") or {}) or _PACKED in (config_map.get("binaryData") or {}):
            yield f"{NAMESPACE}/{name}"


def parent_of(defined: YuniKornDefinitions, namespace: str) -> str:
    """Return the queue that the annotations of the namespace name as the parent of the namespace's queue; empty if they
    name no queue."""
    return defined.spaces.get(namespace, _NO_TAGS).parent


def unpacked(data: str) -> str:
    """Return the text of a value that is compressed with gzip and encoded in base64. It unpacks at most as many bytes
    as a configuration may have. Raise YuniKornConfigurationError if the value is invalid."""
    try:
        return zlib.decompressobj(_GZIP).decompress(base64.b64decode(data), MOST_BYTES + 1).decode()
    except (ValueError, zlib.error) as error:
        raise YuniKornConfigurationError(1, f"{_PACKED} cannot be unpacked: {error}") from None


# --- internal ---------------------------------------------------------------------------------------------------------


def _too_large(asks: Mapping[str, int], queue: str, queues: Iterable[Queue]) -> str:
    """Return the name of a resource for which the request `asks` exceeds the limit of the queue or of a queue above it;
    empty if there is no such resource."""
    limits = {each.name: dict(each.quotas[0].limit) for each in queues if each.quotas}
    full = QUEUE_PREFIX + queue
    while full.startswith(QUEUE_PREFIX) and full != QUEUE_PREFIX:
        most = limits.get(full, {})
        if found := next((name for name, amount in asks.items() if amount > most.get(name, amount)), ""):
            return found
        full = full.rpartition(".")[0]
    return ""


def _own_queue(leaf: str, gang: str, queues: Mapping[str, Queue]) -> Queue:
    """Return a queue for one application alone, below the application's leaf queue. So the leaf queue divides its quota
    among its applications."""
    above = queues.get(leaf)
    preemption = NO_PREEMPTION if above is None else above.preemption
    return Queue(name=f"{leaf}{OF_APPLICATION}{gang}", parent=leaf, preemption=preemption)


def _waits(pod: Object) -> bool:
    return not pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") == "Pending"


def _key(pod: Object) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"


def _failed(pods: Iterable[Object], reason: str, message: str) -> Iterator[Answer]:
    """Yield the answers that set the status of the pods to Failed. If the owner of the pods would replace failed pods
    without end, they do not fail; they wait and show the reason."""
    for pod in pods:
        owners = [one["kind"] for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
        if _MADE_ANEW.isdisjoint(owners):
            status = {**(pod.get("status") or {}), "phase": "Failed", "reason": reason, "message": message}
            yield Answer(kind=PODS, key=_key(pod), status=status)


@lru_cache(maxsize=4)  # the configuration must not be parsed again when a namespace changes
def _definitions(text: str) -> YuniKornDefinitions:
    """Return the definitions in a configuration with this text. Raise YuniKornConfigurationError if it is invalid."""
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


def _made_queues(found: MadeQueues, *, reclaim: bool) -> tuple[Queue, ...]:
    translation = translate_made(found.branch, found.properties, reclaim=reclaim)
    return tuple(_queues(translation, above=found.above))


def _queues(translation: Translation, above: str = "") -> Iterator[Queue]:
    """Yield the queues with their full names, parents before children. `above`: the full name of the parent of the
    first queue."""
    for full, name in translation.names.items():
        whole = f"{above}.{full}" if above else full
        parent = whole.rpartition(".")[0]
        over = {"parent": QUEUE_PREFIX + parent} if parent else {}
        queue = read_queue(QUEUE_PREFIX + whole, {**translation.queues[name], **over})
        yield with_limits(queue, translation.limits.get(name, ()))
