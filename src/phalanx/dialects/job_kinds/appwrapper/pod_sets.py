"""Find the pod templates in the objects that an AppWrapper wraps, and build the objects to create.

The AppWrapper declares the paths of the pod templates in `podSets`. For known kinds of objects, the paths may be left
out.

Each created object and its pods get a label with the AppWrapper's name. Each pod also gets a label with the name of its
pod set. So the scheduler recognizes the pods, whichever controller creates them. The labels, tolerations and other
fields in `podSetInfos`, which the scheduler or Kueue wrote there, are merged into the pod templates. Pods that request
GPUs avoid nodes that Autopilot has labelled as unhealthy.

Source: pkg/utils/utils.go and internal/controller/appwrapper/resource_management.go of v1.2.1.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.appwrapper import kinds
from phalanx.errors import PhalanxError

MOST: Final = 8  # the maximum number of pod sets in one AppWrapper
_PART = re.compile(r"([A-Za-z0-9_-]+)(?:\[(\d+)\])?")
_KUBEFLOW: Final = {"PyTorchJob": ("pytorchReplicaSpecs", ("Master", "Worker"))}
_TEMPLATE: Final = "template.spec.template"
# requested resource -> the node label in which Autopilot writes the health of its devices
_HEALTH: Final = {"nvidia.com/gpu": "autopilot.ibm.com/gpuhealth"}
# The fields of a pod template that this module reads or extends, and their types. A field comes before its subfields.
_FORMS: Final[Mapping[str, type[Any]]] = {
    **dict.fromkeys(("metadata", "metadata.labels", "metadata.annotations", "spec", "spec.nodeSelector"), dict),
    **{f"spec.{name}": list for name in ("containers", "initContainers", "tolerations", "schedulingGates")},
    **{f"spec.{name}": dict for name in ("affinity", "affinity.nodeAffinity")},
}
WARN, TESTING, LEAVE = "WARN", "TESTING", "EVICT"
_WARN_WEIGHT: Final = 50


class WrapError(PhalanxError):
    """An error in an AppWrapper: the object of one of its components can never be created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppWrapperPodSet:
    """A pod set: the pods of one pod template. `component`: the index of its component in the AppWrapper. `index`: the
    index of the pod set in the component. `path`: the path of the pod template in the component. `replicas`: the number
    of pods."""

    component: int
    index: int
    path: str
    replicas: int
    template: Object

    @property
    def role(self) -> str:
        """Return a name for the pod set that is unique in the AppWrapper."""
        return f"{self.component}-{self.index}"


def pod_sets(spec: Mapping[str, Any]) -> tuple[AppWrapperPodSet, ...]:
    """Return all pod sets in the spec of an AppWrapper. Raise WrapError if there are too many, or none, or if one is
    invalid."""
    components = spec.get("components") or ()
    found = tuple(one for at, each in enumerate(components) for one in component_sets(at, each))
    if not 1 <= len(found) <= MOST:
        raise WrapError(f"it has {len(found)} pod templates; it must have from 1 to {MOST}: declare podSets")
    return found


def component_sets(at: int, component: Mapping[str, Any]) -> list[AppWrapperPodSet]:
    """Return the pod sets of one component. `at`: the index of the component. Raise WrapError if the declared pod sets
    are invalid."""
    obj = component.get("template") or {}
    try:
        inferred = dict(_inferred(obj))
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise WrapError(f"component {at}: its numbers of pods cannot be read: {error}") from None
    declared = {str(one["path"]): _count(one.get("replicas"), 1) for one in component.get("podSets") or ()}
    if inferred and declared and declared != inferred:
        raise WrapError(
            f"component {at}: the declared podSets {declared} differ from those of the {obj.get('kind')}: {inferred}"
        )
    return [
        AppWrapperPodSet(component=at, index=index, path=path, replicas=replicas, template=_at(component, path))
        for index, (path, replicas) in enumerate((declared or inferred).items())
    ]


def component_name(app_wrapper: Object, at: int) -> str:
    """Return the name of the object that a component wraps. `at`: the index of the component. If the object has only
    `generateName`, the generated name is the same at every call."""
    meta = (app_wrapper["spec"]["components"][at].get("template") or {}).get("metadata") or {}
    if meta.get("name") or not meta.get("generateName"):
        return str(meta.get("name") or "")
    digest = hashlib.sha256(f"{app_wrapper['metadata']['uid']}/{at}".encode()).hexdigest()
    return f"{meta['generateName']}{digest[:5]}"


def component_object(app_wrapper: Object, at: int) -> Object:
    """Return the object to create for the component with the index `at`. Raise WrapError if it can never be
    created."""
    meta = app_wrapper["metadata"]
    component = copy.deepcopy(app_wrapper["spec"]["components"][at])
    infos = component.get("podSetInfos") or ()
    for number, one in enumerate(component_sets(at, component)):
        template = _at(component, one.path)
        for info in infos[number : number + 1]:
            inject(template, info)
        avoid_unhealthy(template)
        said = template.setdefault("metadata", None) or {}
        template["metadata"] = said
        said["labels"] = {**(said.get("labels") or {}), kinds.LABEL: meta["name"], kinds.POD_SET: one.role}
        said["annotations"] = {**(said.get("annotations") or {}), kinds.UID: meta["uid"]}
    obj: Object = component["template"]
    own = obj.setdefault("metadata", {})
    own["labels"] = {**(own.get("labels") or {}), kinds.LABEL: meta["name"]}
    own["namespace"], own["name"] = meta["namespace"], component_name(app_wrapper, at)
    if not own["name"]:
        raise WrapError(f"component {at}, a {obj.get('kind')}, has no name")
    return obj


def inject(template: Object, info: Mapping[str, Any]) -> None:
    """Merge one entry of `podSetInfos` into the pod template. Raise WrapError if the template has another value for the
    same key."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    template["metadata"], template["spec"] = meta, spec
    for into, name in ((meta, "labels"), (meta, "annotations"), (spec, "nodeSelector")):
        existing = into.get(name) or {}
        for key, value in (info.get(name) or {}).items():
            if existing.get(key, value) != value:
                raise WrapError(f"the {name} of its pods set {key}: {existing[key]}, but its queue sets {value}")
        if info.get(name):
            into[name] = {**existing, **info[name]}
    for name in ("tolerations", "schedulingGates"):
        if info.get(name):
            spec[name] = [*(spec.get(name) or ()), *info[name]]


def health(spec: Mapping[str, Any]) -> list[str]:
    """Return the node labels in which Autopilot writes the health of the devices that pods with this spec request."""
    asked = set()
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        asked |= {*(resources.get("requests") or {}), *(resources.get("limits") or {})}
    return [label for resource, label in _HEALTH.items() if resource in asked]


def avoid_unhealthy(template: Object) -> None:
    """Add a node affinity to the pod template, so that its pods avoid nodes with unhealthy devices. A template that
    requests no devices is not changed."""
    spec = template.get("spec") or {}
    for label in health(spec):
        affinity = dict(spec.get("affinity") or {})
        node = dict(affinity.get("nodeAffinity") or {})
        rule = {"key": label, "operator": "NotIn", "values": [TESTING, LEAVE]}
        must = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {"nodeSelectorTerms": [{}]}
        terms = [
            {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), rule]}
            for term in must["nodeSelectorTerms"]
        ]
        wish = {"matchExpressions": [{"key": label, "operator": "NotIn", "values": [WARN]}]}
        wishes = node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        node["preferredDuringSchedulingIgnoredDuringExecution"] = [
            *wishes,
            {"weight": _WARN_WEIGHT, "preference": wish},
        ]
        template["spec"] = spec = {**spec, "affinity": {**affinity, "nodeAffinity": node}}


# --- internal ---------------------------------------------------------------------------------------------------------


def _inferred(obj: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the path of each pod template of an object and the number of its pods; yield nothing for an object of an
    unknown kind."""
    kind, spec = str(obj.get("kind")), obj.get("spec") or {}
    match kind:
        case "Pod":
            yield "template", 1
        case "Deployment" | "StatefulSet":
            yield _TEMPLATE, _count(spec.get("replicas"), 1)
        case "Job":
            width = _count(spec.get("parallelism"), 1)
            yield _TEMPLATE, min(width, _count(spec.get("completions"), width))
        case "JobSet":
            for at, job in enumerate(spec.get("replicatedJobs") or ()):
                inner = (job.get("template") or {}).get("spec") or {}
                width = _count(inner.get("parallelism"), 1)
                pods = _count(job.get("replicas"), 1) * min(width, _count(inner.get("completions"), width))
                yield f"template.spec.replicatedJobs[{at}].template.spec.template", pods
        case "PyTorchJob":
            where, roles = _KUBEFLOW[kind]
            for role in roles:
                if role in (spec.get(where) or {}):
                    pods = _count(spec[where][role].get("replicas"), 1)
                    yield f"template.spec.{where}.{role}.template", pods
        case "RayCluster":
            yield from _ray("template.spec", spec)
        case "RayJob":
            yield from _ray("template.spec.rayClusterSpec", spec.get("rayClusterSpec") or {})


def _ray(root: str, spec: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    yield f"{root}.headGroupSpec.template", 1
    for at, group in enumerate(spec.get("workerGroupSpecs") or ()):
        yield f"{root}.workerGroupSpecs[{at}].template", _count(group.get("replicas"), 1)


def _at(component: Mapping[str, object], path: str) -> Object:
    """Return the pod template at the path in the component. The result is part of the component, not a copy. Raise
    WrapError if there is no pod template at the path."""
    here: Any = component
    for part in path.split("."):
        found = _PART.fullmatch(part)
        here = here.get(found[1]) if found and isinstance(here, dict) else None
        if found and found[2] is not None:
            here = here[int(found[2])] if isinstance(here, list) and int(found[2]) < len(here) else None
    if not isinstance(here, dict) or not path.startswith("template"):
        raise WrapError(f"there is no pod template at {path}")
    _check(here, path)
    return here


def _check(template: Object, path: str) -> None:
    """Raise WrapError if a field of the pod template does not have the type that `_FORMS` states."""
    for where, form in _FORMS.items():
        found: Any = template
        for part in where.split("."):
            found = (found or {}).get(part)
        if found is not None and not isinstance(found, form):
            raise WrapError(f"{path}.{where} is not a {'list' if form is list else 'mapping'}")
        if form is list and not all(isinstance(each, dict) for each in found or ()):
            raise WrapError(f"{path}.{where} is not a list of mappings")
    for name in ("containers", "initContainers"):
        for container in (template.get("spec") or {}).get(name) or ():
            asked = container.get("resources") or {}
            if not isinstance(asked, dict) or not all(isinstance(each, dict) for each in asked.values() if each):
                raise WrapError(f"{path}.spec.{name}: its resources are not mappings of amounts")


def _count(value: Any, default: int) -> int:
    return default if value is None else max(0, int(value))
