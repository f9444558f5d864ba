"""Convert a Kubernetes Pod object into the scheduler's own type `Pod`. The object is read once for each change, and all
parts of the scheduler then use the resulting value.

The resources of a pod are charged to its node from the moment at which it has a nodeName until it is Succeeded, Failed
or deleted. They stay charged while the pod terminates, and when its node is lost, because the pod may still run on that
node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from phalanx.client.connection import Object
from phalanx.kube.read import labels
from phalanx.kube.read.records import PreemptionMark, StartRecord, read_records
from phalanx.kube.read.template.pod_shape import ShapeCache, resized_resources, volume_claims
from phalanx.kube.read.wire import epoch_s, with_group, with_priority
from phalanx.kube.read.workload.adapter import PodOwner
from phalanx.model.pod import Amounts, Shape
from phalanx.model.reason import Reason

# The reasons in the status of a pod that the kubelet refused to run: k8s.io/kubernetes/pkg/kubelet/lifecycle and
# kubelet.go.
_REJECTIONS = (
    *("OutOf", "NodeAffinity", "NodeName", "NodePorts", "UnexpectedAdmissionError", "TopologyAffinityError", "Taint"),
    *("NodeShutdown", "Terminated", "Evicted", "Preempting", "VolumeAttachmentLimitExceeded"),
)
_OURS = "phalanx.dev/"
_ENDED = {"Succeeded", "Failed"}
RESIDENTS = {"DaemonSet", "Node"}  # the kinds of owners whose pods belong to one node (Node owns static pods)
_NO_GATES: frozenset[str] = frozenset()
_NOTHING: Object = {}


class Pod(msgspec.Struct, frozen=True, kw_only=True):  # created for every event; ten times faster than a dataclass
    """A pod in the scheduler's terms. `owner`: the (name, uid) of the Job that controls the pod. `index`: the
    completion index, if any. `ours`: True if Phalanx plans the node of the pod. Phalanx also binds the pod, unless
    `pinned` is True: then another scheduler binds the pod to the node `pin`. `gated`: True if the pod has scheduling
    gates that are not Phalanx's. `devices`: the devices of the node that Phalanx assigned to the pod. `grace_s`: the
    termination grace period in seconds. `claims`: the pod's volume claims. `unplaced`: the claims whose volumes cannot
    be created until the pod's node is chosen. `awaited`: the node to which another scheduler is about to bind a foreign
    pod. `part`: the part of the node that the pod is in. `stands_in`: True if no such pod exists in the API, because
    the value represents an object of another scheduler. `resident`: True if it is a foreign pod that is static or
    belongs to a DaemonSet. `over`: True if it has ended. `charged`: True if its resources are charged to a node."""

    uid: str
    key: str  # namespace/name
    namespace: str
    name: str
    resource_version: str
    ours: bool
    pinned: bool
    pin: str
    node: str
    phase: str
    over: bool
    charged: bool
    reason: str
    going: bool
    gated: bool
    shape: Shape
    obstacle: Reason | None
    owner: tuple[str, str] | None
    index: int | None
    priority: int
    created_s: float
    grace_s: float
    active_s: float | None
    preempts: bool
    devices: tuple[str, ...]
    record: StartRecord | None
    mark: PreemptionMark | None
    waits_for: str  # the code in the PodScheduled condition; ends with `Unschedulable` if autoscalers may act
    options: Mapping[str, str]
    claims: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    message: str = ""
    ready: bool = False
    awaited: str = ""
    part: str = ""
    stands_in: bool = False
    resident: bool = False

    @property
    def where(self) -> str:
        """Return the node that the pod is charged to; "" if there is none."""
        return self.node or self.awaited

    @property
    def rejected(self) -> bool:
        """Return whether the kubelet refused to run the pod, because of the node's state and not because of the
        program."""
        return self.phase == "Failed" and self.reason.startswith(_REJECTIONS)

    @property
    def bindable(self) -> bool:
        """Return True if Phalanx may bind the pod now, or remove its scheduling gate. Return False for every pod that
        is not assigned to Phalanx by a label, by its owner or by its scheduler name."""
        waits = not self.node and not self.over and not self.going and not self.pin
        return self.ours and waits and not self.gated and self.obstacle is None

    @property
    def requests(self) -> Amounts:
        return self.shape.requests


def read_pod(
    obj: Object,
    shapes: ShapeCache,
    answers_to: frozenset[str] = labels.OURS,
    owner: PodOwner | None = None,
    words: Callable[[str, Object, str], Mapping[str, str]] = lambda kind, meta, scheduler: _NOTHING,
    binds_alone: Callable[[Object], bool] = lambda spec: False,
) -> Pod:
    """Read a pod. `answers_to`: the scheduler names of pods that Phalanx binds. `binds_alone`: a function of a pod's
    spec. It returns True if Phalanx binds the pod as a job of its own, although the pod names the default scheduler.
    `words`: translates other schedulers' labels to Phalanx's options."""
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    annotations, scheduler = meta.get("annotations") or {}, spec.get("schedulerName", "")
    phase, node = status.get("phase") or "Pending", spec.get("nodeName") or ""
    single, bound_by_us = _bound_by_us(spec, owner, answers_to, binds_alone)
    gates = {gate["name"] for gate in spec["schedulingGates"] or ()} if "schedulingGates" in spec else _NO_GATES
    pin = annotations.get(labels.PINNED, "") if labels.GATE not in gates else ""
    owner = None if single else owner
    ours = bound_by_us or (owner is not None and (labels.GATE in gates or bool(pin)))
    awaited = "" if ours or "nodeName" in spec else _awaited(spec, status)
    said = {**(labels.from_autoscalers(meta) if annotations else {}), **_said(meta)} if ours else {}
    from_dialect = words("Pod", _named(meta, spec), scheduler) if bound_by_us and _has_words(spec, owner) else _NOTHING
    ask = shapes.of_pod(spec, status, _with_devices(meta, from_dialect))
    index, (record, mark) = annotations.get(labels.COMPLETION_INDEX), read_records(annotations)
    return Pod(
        uid=meta["uid"],
        key=f"{meta['namespace']}/{meta['name']}",
        namespace=meta["namespace"],
        name=meta["name"],
        resource_version=meta["resourceVersion"],
        ours=ours,
        pinned=ours and not bound_by_us,
        pin=pin if ours and not bound_by_us else "",
        node=node,
        phase=phase,
        over=phase in _ENDED,
        charged=phase not in _ENDED and bool(node or awaited),
        reason=status.get("reason") or "",
        going="deletionTimestamp" in meta,
        gated=bool(gates - {labels.GATE}) or (bound_by_us and bool(gates)),
        shape=ask.shape,
        obstacle=ask.obstacle,
        owner=owner and (owner.name, owner.uid),
        index=labels.whole_number(index) if index else None,
        priority=int(spec.get("priority") or 0),
        created_s=epoch_s(meta.get("creationTimestamp")),
        resident=not ours and _is_resident(meta),
        grace_s=float(spec.get("terminationGracePeriodSeconds", 30)),
        active_s=None if spec.get("activeDeadlineSeconds") is None else float(spec["activeDeadlineSeconds"]),
        preempts=spec.get("preemptionPolicy") != "Never",
        devices=tuple(annotations[labels.DEVICES].split(",")) if annotations.get(labels.DEVICES) else (),
        record=record,
        mark=mark,
        options={**from_dialect, **said} if from_dialect else said,
        claims=volume_claims(spec, meta["name"]) if ask.claims else (),
        message=status.get("message") or "",
        waits_for=_waits_for(status) if ours else "",
        ready=ours and _ready(status),
        awaited=awaited,
    )


def _bound_by_us(
    spec: Object, owner: PodOwner | None, answers_to: frozenset[str], binds_alone: Callable[[Object], bool]
) -> tuple[bool, bool]:
    """Return two booleans: whether Phalanx binds the pod as a job of its own, and whether Phalanx binds the pod at
    all."""
    default = (scheduler := spec.get("schedulerName", "")) == labels.DEFAULT_SCHEDULER
    with_gang = default and owner is not None and owner.ours
    single = default and not with_gang and binds_alone(spec)
    return single, single or with_gang or scheduler in answers_to


def _has_words(spec: Object, owner: PodOwner | None) -> bool:
    """Return whether Phalanx reads the labels of other schedulers on the pod. It ignores these labels if a Job owns the
    pod and the pod names Phalanx as its scheduler, because the Job then determines the gang. But it always reads them
    if the pod's spec names a group (`schedulingGroup` or `workloadRef`)."""
    grouped = "schedulingGroup" in spec or "workloadRef" in spec
    return owner is None or grouped or spec.get("schedulerName", "") not in labels.OURS


def _named(meta: Object, spec: Object) -> Object:
    return with_priority(with_group(meta, spec), spec)


def read_changed_pod(pod: Pod, old: Object, new: Object) -> Pod | None:
    """Return the pod with the node and the status of `new`, if `new` and `old` are equal in all other fields that are
    read. Return None if another field differs; the caller must then read the pod in full."""
    before, after = old["metadata"], new["metadata"]
    if pod.claims or pod.part or old is new or pod.resource_version != before["resourceVersion"]:
        return None
    if any(before.get(word) != after.get(word) for word in _WORDS) or not _same_demands(old, new):
        return None
    spec, status = new["spec"], new.get("status") or _NOTHING
    phase, node = status.get("phase") or "Pending", spec.get("nodeName") or ""
    awaited = "" if pod.ours or "nodeName" in spec else _awaited(spec, status)
    over = phase in _ENDED
    return msgspec.structs.replace(
        pod,
        resource_version=after["resourceVersion"],
        node=node,
        phase=phase,
        over=over,
        charged=not over and bool(node or awaited),
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        going="deletionTimestamp" in after,
        waits_for=_waits_for(status) if pod.ours else "",
        ready=pod.ours and _ready(status),
        awaited=awaited,
    )


def _with_devices(meta: Object, from_dialect: Mapping[str, str]) -> Object:
    """If the pod requests devices or NUMA zones by another scheduler's annotations, add the corresponding annotations
    of Phalanx to the metadata, and return it. `from_dialect`: the same requests, translated by a dialect into Phalanx's
    options."""
    words = (labels.GPU_FRACTION, labels.GPU_COUNT, labels.GPU_MEMORY, labels.NUMA_ALIGNMENT)
    asked = {key: from_dialect[key] for key in words if key in from_dialect}
    return {**meta, "annotations": {**asked, **(meta.get("annotations") or {})}} if asked else meta


_WORDS = ("labels", "annotations", "ownerReferences")


def _same_demands(old: Object, new: Object) -> bool:
    """Return whether the requests are the same in both versions of a pod: the specs differ at most in the node, and the
    amounts that the kubelet has allocated are equal."""
    before, after = old["spec"], new["spec"]
    if "nodeName" in after and "nodeName" not in before:
        before = {**before, "nodeName": after["nodeName"]}
    if after is not before and after != before:
        return False
    granted = [resized_resources(one.get("status")) if "nodeName" in one["spec"] else None for one in (old, new)]
    return granted[0] == granted[1]


def _ready(status: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())


def _awaited(spec: Object, status: Object) -> str:
    """Return the node to which another scheduler will probably bind the pod: the nominated node, or the only node that
    the pod's affinity allows (as for pods of DaemonSets)."""
    if "nominatedNodeName" in status:
        return str(status["nominatedNodeName"])
    node = (spec.get("affinity") or _NOTHING).get("nodeAffinity") or _NOTHING
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or _NOTHING
    terms = required.get("nodeSelectorTerms") or ()
    fields = [one for term in terms for one in term.get("matchFields") or ()] if len(terms) == 1 else []
    names = [one["values"] for one in fields if one["key"] == "metadata.name" and one["operator"] == "In"]
    return str(names[0][0]) if names and len(names[0]) == 1 else ""


def _waits_for(status: Object) -> str:
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            code = str(condition.get("message") or "").partition(":")[0]
            return f"{code} {labels.UNSCHEDULABLE}" if condition.get("reason") == labels.UNSCHEDULABLE else code
    return ""


def _is_resident(meta: Object) -> bool:
    return any(ref.get("kind") in RESIDENTS for ref in meta.get("ownerReferences") or ())


def _said(meta: Object) -> dict[str, str]:
    """Return the pod's `phalanx.dev` options. Labels take precedence over annotations. The option for the creator is
    left out, because it cannot be verified who created a pod."""
    found: dict[str, str] = {}
    for words in (meta.get("annotations") or {}, meta.get("labels") or {}):
        for key in words:
            if key.startswith(_OURS):
                found[key] = str(words[key])
    found.pop(labels.USER, None)
    return found
