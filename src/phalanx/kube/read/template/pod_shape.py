"""Convert a pod's spec to its `Shape`, and a Job's pod template to the shape that the pods of the Job will have. (The
*shape* of a pod is everything that decides on which nodes the pod fits.)

A pod differs from its template, because the API server adds fields when the pod is created: the RuntimeClass' overhead,
selector and tolerations, the defaults of the namespace's LimitRanges, and requests of containers that set only limits.
This module adds all of these to the template of a suspended Job, so that the Job can be planned. When the pods are
about to be bound, the shapes of the real pods are used.

The shape contains a label only if some pod selects other pods by the key of this label (`ShapeCache.selecting`). Other
labels do not affect the placement. They may differ from pod to pod, so the shape leaves them out: pods that the
scheduler treats equally must have equal shapes. When a selector uses a new key, pods and Jobs with that label are read
again.

Thousands of pods may have equal specs, so shapes are cached. The key in the cache is the encoded content of those
fields of the spec that determine the shape.

This module also computes the requests of a pod, exactly as kube-scheduler and the kubelet do.

The rule is `PodRequests` of k8s.io/component-helpers/resource: containers run at the same time, so their requests are
added up. Init containers run one after the other, so only the largest request counts. The request of each init
container includes the requests of the sidecars (init containers with restartPolicy Always) that were started before it.
Pod-level resources (KEP-2837) replace the sum for the resources that they name. The RuntimeClass' overhead is added.
During an in-place resize (KEP-1287), the largest of three amounts counts: the requested amount, the amount that the
kubelet has allocated, and the amount with which the container runs now. If the kubelet has reported the resize as
infeasible, the requested amount does not count. A container with a limit and no request requests its limit. The API
server applies this default to pods, not to templates, so this module applies it to both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from phalanx.client.quantity import QuantityError, amount
from phalanx.kube.read.labels import GPU_COUNT, GPU_FRACTION, GPU_MEMORY, NUMA_ALIGNMENT
from phalanx.kube.read.template import affinity
from phalanx.kube.read.template.affinity import (
    node_selector,
    preferred_node_affinity,
    required_node_affinity,
    tolerations,
    unsupported,
)
from phalanx.model.pod import PODS, Amounts, Shape, amounts
from phalanx.model.reason import Reason, ReasonCode

Spec = Mapping[str, Any]
Sums = dict[str, int]

_NONE: Mapping[str, Any] = {}


def pod_requests(spec: Spec, status: Mapping[str, object] = _NONE) -> Amounts:
    """Return the requests of one pod, including 1 for the resource `pods`. Raises QuantityError for an invalid
    quantity."""
    running = _statuses(status)
    stuck = _infeasible(status)
    total: Sums = {}
    for container in spec.get("containers", ()):
        _add(total, _container(container, running.get(container.get("name")), stuck))
    _raise(total, _start_up(spec, running, stuck, total))
    level = spec.get("resources")
    if level:
        total.update(_requests(level))
    _add(total, {name: amount(name, text) for name, text in (spec.get("overhead") or _NONE).items()})
    total[PODS] = 1
    return amounts(total)


def _start_up(spec: Spec, running: Mapping[str, Any], stuck: bool, total: Sums) -> Sums:
    """Return the largest amounts that are in use while the init containers run. Add the sidecars among the init
    containers to `total`, because the sidecars continue to run."""
    peak: Sums = {}
    sidecars: Sums = {}
    for container in spec.get("initContainers", ()):
        demand = _container(container, running.get(container.get("name")), stuck)
        if container.get("restartPolicy") == "Always":
            _add(total, demand)
            _add(sidecars, demand)
            _raise(peak, sidecars)
        else:
            _add(demand, sidecars)
            _raise(peak, demand)
    return peak


def _container(container: Spec, state: Mapping[str, Any] | None, stuck: bool) -> Sums:
    asked = _requests(container.get("resources") or _NONE)
    if not state:
        return asked
    actual = (state.get("resources") or _NONE).get("requests") or _NONE
    allocated = state.get("allocatedResources") or _NONE
    if not actual and not allocated:
        return asked
    whole: Sums = {} if stuck else asked
    for known in (actual, allocated):
        _raise(whole, {name: amount(name, text) for name, text in known.items()})
    return whole


def _requests(resources: Mapping[str, Any]) -> Sums:
    both = {**(resources.get("limits") or _NONE), **(resources.get("requests") or _NONE)}
    return {name: amount(name, text) for name, text in both.items()}


def _statuses(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {}
    for field in ("containerStatuses", "initContainerStatuses"):
        for state in status.get(field) or ():
            if "allocatedResources" in state or "resources" in state:
                found[state["name"]] = state
    return found


def _infeasible(status: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )


def _add(total: Sums, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise(total: Sums, other: Mapping[str, int]) -> None:
    for name, value in other.items():
        if value > total.get(name, 0):
            total[name] = value


Metadata = tuple[tuple[tuple[str, str], ...], str, tuple[str | None, ...]]
_encode = msgspec.json.Encoder().encode
_SAID = (GPU_FRACTION, GPU_COUNT, GPU_MEMORY, NUMA_ALIGNMENT)
_PARTS = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "resourceClaims",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
)
# Errors that can be raised while an invalid object is read (some API servers do not validate objects).
ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_REMEMBERED = 50_000
_NO_META: Spec = {}


@dataclass(frozen=True, slots=True)
class PodRequirements:
    """The shape of pods, and further data for their placement. `obstacle`: why pods of this shape are not placed at
    all; None if they are placed. `claims`: True if the pods use volume claims. The module `volumes` later adds the
    constraints of these claims to the shape."""

    shape: Shape
    obstacle: Reason | None = None
    claims: bool = False


class ShapeCache:
    """A cache of shapes. The key is the content of a spec."""

    def __init__(self) -> None:
        self.selecting: dict[str, None] = {}  # the label keys that selectors of any pod use
        self._known: dict[bytes, PodRequirements] = {}
        self._last: tuple[Spec | None, Metadata | None, PodRequirements] = (
            None,
            None,
            PodRequirements(Shape(requests=())),
        )

    def of_pod(self, spec: Spec, status: Mapping[str, object] | None = None, meta: Spec = _NO_META) -> PodRequirements:
        """Return the shape of the pod. `status`: the pod's status, which is used only for bound pods, because the
        kubelet may have resized them. `meta`: the pod's metadata, of which the namespace, labels and annotations are
        used."""
        granted = resized_resources(status) if spec.get("nodeName") else None
        seen = self._seen(meta)
        last, last_seen, found = self._last
        if spec is last and seen == last_seen and granted is None:  # a common case: equal pods of a job
            return found
        found = self._of_content(spec, granted, seen, meta)
        if granted is None:
            self._last = (spec, self._seen(meta), found)
        return found

    def _of_content(
        self, spec: Spec, granted: Mapping[str, object] | None, seen: Metadata, meta: Spec
    ) -> PodRequirements:
        key = _content(spec, granted, seen)
        found = self._known.get(key)
        if found is None:
            found = _read(spec, granted or {}, meta)
            if self._select_by(found.shape):
                seen = self._seen(meta)
            wishes = found.shape.near or found.shape.away or found.shape.spread
            if seen[0] or wishes:
                shape = replace(found.shape, labels=seen[0], namespace=meta.get("namespace") or "")
                found = PodRequirements(shape, found.obstacle, found.claims)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[_content(spec, granted, seen)] = found
        return found

    def _seen(self, meta: Spec) -> Metadata:
        """Return the parts of a pod's metadata that affect its shape: certain labels and annotations, and the
        namespace."""
        labels, words = meta.get("labels") or {}, meta.get("annotations") or {}
        own: tuple[tuple[str, str], ...] = ()
        if self.selecting:
            own = tuple(sorted((key, str(labels[key])) for key in self.selecting if key in labels))
        return own, meta.get("namespace") or "", tuple(words.get(key) for key in _SAID)

    def _select_by(self, shape: Shape) -> bool:
        new = [
            key
            for key in affinity.selector_keys((*shape.near, *shape.away, *shape.spread))
            if key not in self.selecting
        ]
        self.selecting.update(dict.fromkeys(new))
        return bool(new)

    def of_template(
        self, spec: Spec, limit_ranges: Iterable[Spec], runtime_class: Spec | None, meta: Spec = _NO_META
    ) -> PodRequirements:
        if spec.get("runtimeClassName") and runtime_class is None:
            text = (
                f"runtimeClassName {spec['runtimeClassName']} does not exist: create the RuntimeClass, or leave "
                "the name out"
            )
            return PodRequirements(Shape(requests=((PODS, 1),)), Reason(code=ReasonCode.INVALID, text=text))
        return self.of_pod(with_runtime_class(with_limit_ranges(spec, limit_ranges), runtime_class), meta=meta)


def volume_claims(spec: Spec, pod: str = "") -> tuple[str, ...]:
    """Return the names of the volume claims of a pod or, if `pod` is empty, of a template. The claim of an ephemeral
    volume is created for its pod, and may not exist yet. So the name of its storage class is added to the name of the
    claim: `NAME~CLASS` for a pod, `~CLASS` for a template."""
    found = []
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append(str(volume["persistentVolumeClaim"]["claimName"]))
        elif "ephemeral" in volume:
            claim = ((volume["ephemeral"] or {}).get("volumeClaimTemplate") or {}).get("spec") or {}
            name = f"{pod}-{volume['name']}" if pod else ""
            found.append(f"{name}~{claim.get('storageClassName') or ''}")
    return tuple(found)


def covers(planned: Shape, real: Shape, *, narrower: bool = False) -> bool:
    """Return whether a pod of the shape `real` may use a node that was planned for a pod of the shape `planned`.
    `narrower`: True if the node selector of `real` may have additional labels, which a flavor has added."""
    if planned is real or planned == real:
        return True
    room = dict(planned.requests)
    return (
        all(value <= room.get(name, 0) for name, value in real.requests)
        and (planned.selector == real.selector or (narrower and set(planned.selector) <= set(real.selector)))
        and planned.affinity == real.affinity
        and (planned.near, planned.away, planned.spread) == (real.near, real.away, real.spread)
        and (planned.ports, planned.share) == (real.ports, real.share)
        and set(planned.tolerations) <= set(real.tolerations)
    )


def with_limit_ranges(spec: Spec, limit_ranges: Iterable[Spec]) -> Spec:
    """Return the spec with the changes of the LimitRanger admission plug-in. The plug-in adds default limits to
    containers, and default requests to containers with neither request nor limit. (The API server has already derived
    defaultRequest from default and max when the LimitRange was written.)"""
    defaults: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for limit_range in limit_ranges:
        for item in limit_range["spec"].get("limits") or ():
            if item.get("type") == "Container":
                defaults = {**(item.get("default") or {}), **(item.get("defaultRequest") or {}), **defaults}
                limits = {**(item.get("default") or {}), **limits}
    if not defaults:
        return spec
    full = dict(spec)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            full[field] = [_with_defaults(container, defaults, limits) for container in spec[field]]
    return full


def _with_defaults(container: Spec, defaults: Mapping[str, object], limits: Mapping[str, object]) -> Spec:
    resources = container.get("resources") or {}
    said = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    most = {**limits, **(resources.get("limits") or {})}
    return {**container, "resources": {**resources, "requests": {**defaults, **said}, "limits": most}}


def with_runtime_class(spec: Spec, runtime_class: Spec | None) -> Spec:
    """Return the spec with the changes that the RuntimeClass admission plug-in will make."""
    if runtime_class is None:
        return spec
    scheduling = runtime_class.get("scheduling") or {}
    return {
        **spec,
        "overhead": (runtime_class.get("overhead") or {}).get("podFixed") or spec.get("overhead"),
        "nodeSelector": {**(spec.get("nodeSelector") or {}), **(scheduling.get("nodeSelector") or {})},
        "tolerations": [*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())],
    }


def _read(spec: Spec, status: Mapping[str, object], meta: Spec) -> PodRequirements:
    try:
        shape = Shape(
            requests=pod_requests(spec, status),
            selector=node_selector(spec),
            affinity=required_node_affinity(spec),
            tolerations=tolerations(spec),
            preferences=preferred_node_affinity(spec),
            near=affinity.affinity_terms(spec),
            away=affinity.anti_affinity_terms(spec),
            spread=affinity.topology_spread(spec),
            ports=affinity.host_ports(spec),
            share=affinity.device_share(meta.get("annotations") or {}),
            aligned=_alignment(meta.get("annotations") or {}),
        )
    except (QuantityError, *ODD) as error:
        text = f"its requests cannot be read: {error}; correct the pod template"
        return PodRequirements(Shape(requests=((PODS, 1),)), Reason(code=ReasonCode.INVALID, text=text))
    return PodRequirements(shape, unsupported(spec), bool(_claims(spec)))


def _alignment(words: Mapping[str, object]) -> str:
    """Return whether the pod's resources must come from one NUMA zone: `required`, `preferred`, or "" for no alignment.
    Raises ValueError."""
    said = str(words.get(NUMA_ALIGNMENT) or "")
    if said not in ("", "required", "preferred"):
        raise ValueError(f"{NUMA_ALIGNMENT} is {said[:60]!r}: write required or preferred")
    return said


def _content(spec: Spec, granted: Mapping[str, object] | None, seen: object) -> bytes:
    get = spec.get
    containers = [
        (c.get("resources"), c.get("ports"), c.get("name") if granted else None) for c in get("containers") or ()
    ]
    before = [(c.get("resources"), c.get("restartPolicy"), c.get("ports")) for c in get("initContainers") or ()]
    parts = [part for part in _PARTS if part in spec]
    return _encode((containers, before, _claims(spec), parts, [spec[part] for part in parts], granted, seen))


def _claims(spec: Spec) -> list[Spec]:
    return [v for v in spec.get("volumes") or () if "persistentVolumeClaim" in v or "ephemeral" in v]


def resized_resources(status: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the parts of the status that contain the amounts that the kubelet has allocated; None if the status has no
    such amounts."""
    found: dict[str, Any] = {}
    if not status or not ("containerStatuses" in status or "initContainerStatuses" in status):
        return None
    for field in ("containerStatuses", "initContainerStatuses"):
        states = [
            {part: state[part] for part in ("name", "resources", "allocatedResources") if part in state}
            for state in status.get(field) or ()
        ]
        if any(len(state) > 1 for state in states):
            found[field] = states
    if found:
        found["conditions"] = [
            {"type": c["type"], "reason": c.get("reason")}
            for c in status.get("conditions") or ()
            if c["type"] == "PodResizePending"
        ]
    return found or None
