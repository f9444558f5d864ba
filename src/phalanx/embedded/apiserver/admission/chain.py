"""Admission plug-ins: one function for each plug-in of a default kube-apiserver that affects jobs and pods.

The plug-ins run after defaulting and before validation, in the order of kube-apiserver. They may edit the object, or
raise `StatusError`. They read other objects (the namespace, limit ranges, priority classes) through `Reader`. The lists
at the end of the module assign plug-ins to kinds. A write of a kind without plug-ins costs only one look-up in a
dictionary.

Source: k8s.io/kubernetes/plugin/pkg/admission and k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Protocol

from phalanx.embedded.apimachinery.meta.resource import Object, Resource
from phalanx.embedded.apimachinery.meta.status import StatusError, forbidden, not_found
from phalanx.embedded.apimachinery.schema import quantity
from phalanx.embedded.apiserver.admission import limit_ranger, service_addresses, volcano
from phalanx.embedded.apiserver.admission import resource_quota as quota
from phalanx.embedded.apiserver.admission import service_account as accounts
from phalanx.embedded.apiserver.registry.kinds.nodes.scheduling import SYSTEM

Key = tuple[str, str]

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
TOLERATION_S = 300
TOPOLOGY = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
DEFAULT_POLICY = "PreemptLowerPriority"


class Reader(Protocol):
    """Read access to the stored objects. The objects are shared with other readers, so a plug-in must not edit them."""

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None: ...

    def list(self, group: str, plural: str, namespace: str = "") -> Iterable[Object]:
        """Yield the objects of a kind in one namespace, or in all namespaces."""

    def decided(self, group: str, plural: str, namespace: str = "") -> Iterable[Object]:
        """Yield the objects of a kind in their newest state, which includes accepted writes that are not on the disk
        yet. Plug-ins use this method for values that must not be granted twice. It is slower than `list`."""

    def addressed(self) -> Iterable[Object]:
        """Yield all services that have addresses. This includes services that are not on the disk yet, and services
        about which the server is still asking webhooks."""

    def held(self, namespace: str) -> quota.HeldQuota:
        """Return the number and the size of the objects in a namespace, including objects that are not on the disk
        yet."""


Plugin = Callable[[Resource, Object, Object | None, Reader], None]


def namespace_lifecycle(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Refuse to create an object in a namespace that does not exist or that is being deleted."""
    namespace = obj["metadata"].get("namespace")
    if not namespace or old is not None:
        return
    home = reader.get("", "namespaces", "", namespace)
    if home is None:
        raise not_found("", "namespaces", namespace)
    if home["metadata"].get("deletionTimestamp"):
        raise _terminating(resource, obj["metadata"].get("name", ""), namespace)


def _terminating(resource: Resource, name: str, namespace: str) -> StatusError:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = forbidden(resource.group, resource.plural, name, why)
    text = f"namespace {namespace} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": text, "field": "metadata.namespace"}
    return StatusError(403, "Forbidden", error.message, details={**(error.details or {}), "causes": [cause]})


def service_account(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Mount a token into each new pod that names a service account."""
    name, meta = obj["spec"].get("serviceAccountName"), obj["metadata"]
    if old is not None or not name:
        return
    namespace = meta.get("namespace", "")
    account = reader.get("", "serviceaccounts", namespace, name)
    if account is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden(resource.group, resource.plural, meta.get("name", ""), why)
    if accounts.mounts_token(obj, account):
        accounts.mount_token(obj["spec"])


def taint_nodes_by_condition(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Taint a new node, so that pods are not scheduled to it until it is ready."""
    if old is not None:
        return
    taints = obj["spec"].setdefault("taints", [])
    if not any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def topology_labels(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """If a new pod already names a node, copy the region and zone labels of this node to the pod."""
    if old is None and (node := obj["spec"].get("nodeName")):
        copy_topology_labels(obj, reader.get("", "nodes", "", node))


def copy_topology_labels(obj: Object, node: Object | None) -> None:
    """Copy the region and zone labels of the node to a pod or a Binding. The containers of the pod can then read the
    labels through the downward API. The labels of the node replace those of the pod."""
    labels = (node["metadata"].get("labels") or {}) if node is not None else {}
    if found := {key: labels[key] for key in TOPOLOGY if key in labels}:
        meta = obj.setdefault("metadata", {})
        meta["labels"] = {**(meta.get("labels") or {}), **found}


def priority(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Set spec.priority from spec.priorityClassName. Refuse a pod that states a different priority itself."""
    spec = obj["spec"]
    if old is not None:
        for key in ("priority", "preemptionPolicy"):
            if spec.get(key) is None and key in old["spec"]:
                spec[key] = old["spec"][key]
        return
    value, policy = _priority_of(resource, obj, reader)
    given = spec.get("priority")
    if given is not None and given != value:
        raise _refused(resource, obj, f"the integer value of priority ({given})", str(value))
    chosen = spec.get("preemptionPolicy")
    if chosen is not None and chosen != policy:
        raise _refused(resource, obj, f"the string value of PreemptionPolicy ({chosen})", policy)
    spec["priority"], spec["preemptionPolicy"] = value, policy


def _priority_of(resource: Resource, pod: Object, reader: Reader) -> tuple[int, str]:
    name = pod["spec"].get("priorityClassName")
    if not name:
        default = default_priority_class(reader)
        if default is None:
            return 0, DEFAULT_POLICY
        pod["spec"]["priorityClassName"] = default["metadata"]["name"]
        return default.get("value", 0), default.get("preemptionPolicy", DEFAULT_POLICY)
    found = reader.get("scheduling.k8s.io", "priorityclasses", "", name)
    if found is None:
        why = f"no PriorityClass with name {name} was found"
        raise forbidden(resource.group, resource.plural, pod["metadata"].get("name", ""), why)
    return found.get("value", 0), found.get("preemptionPolicy", DEFAULT_POLICY)


def limited_priorities(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Check pods with a system priority class (`system-cluster-critical`, `system-node-critical`). If kube-system has a
    quota for these classes, such pods are allowed only in namespaces that have a quota for them, too. kube-apiserver
    applies the same rule if its ResourceQuota plug-in is configured with `limitedResources`. `phalanx up --shared`
    creates the quota. Raises `StatusError` 403."""
    namespace = obj["metadata"].get("namespace", "")
    if old is not None or obj["spec"].get("priorityClassName") not in SYSTEM:
        return

    def is_open(space: str) -> bool:
        return any(quota.is_for_class(one, resource, obj) for one in reader.list("", "resourcequotas", space))

    if is_open("kube-system") and not is_open(namespace):
        names = " ".join(sorted(SYSTEM, reverse=True))
        why = f"insufficient quota to match these scopes: [{{PriorityClass In [{names}]}}]"
        raise forbidden(resource.group, resource.plural, obj["metadata"].get("name", ""), why)


def priority_cap(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Refuse an object if it, or one of its pod templates, has a higher priority than the namespace's annotation
    `phalanx.dev/max-priority` allows. Jobs are checked as well as pods, because the scheduler ranks a Job, and may
    preempt other jobs for it, before the Job has pods. Raises `StatusError` 403."""
    namespace = obj["metadata"].get("namespace")
    home = reader.get("", "namespaces", "", namespace) if namespace else None
    text = ((home or {}).get("metadata", {}).get("annotations") or {}).get(MAX_PRIORITY, "")
    if not text.removeprefix("-").isdecimal() or resource.key in _NO_TEMPLATES:
        return
    before = set(_priorities(old)) if old is not None else set()
    for said in _priorities(obj):
        if said not in before and (value := _value(said, reader)) > int(text):
            why = f"priority {said} is {value}, and namespace {namespace} may use {text} at most ({MAX_PRIORITY})"
            raise forbidden(resource.group, resource.plural, obj["metadata"].get("name", ""), why)


MAX_PRIORITY = "phalanx.dev/max-priority"
# Fields, and labels of Kueue and KubeRay, that contain the name of a priority class.
_CLASS_KEYS = frozenset(
    {"priorityClassName", "priorityClass", "kueue.x-k8s.io/priority-class", "ray.io/priority-class-name"}
)
_NO_TEMPLATES = frozenset({("", "configmaps"), ("", "secrets"), ("", "events"), ("events.k8s.io", "events")})


def _priorities(part: object) -> Iterator[str | int]:
    """Yield each name of a priority class and each priority in an object, including its templates. `part`: the object,
    or a part of it."""
    waiting = [part]
    while waiting:
        match waiting.pop():
            case dict() as fields:
                for key, value in fields.items():
                    if key in _CLASS_KEYS and isinstance(value, str) and value:
                        yield value
                    elif key == "priorityClassRef" and isinstance(value, dict):
                        yield str(value.get("name") or "")
                    elif key == "priority" and isinstance(value, int):
                        yield value
                    else:
                        waiting.append(value)
            case list() as items:
                waiting.extend(items)


def _value(said: str | int, reader: Reader) -> int:
    """Return the priority as a number. `said`: the number itself, or the name of a priority class. A class that does
    not exist counts as 0, because pods that name it are refused anyway."""
    if isinstance(said, int):
        return said
    found = (
        reader.get("scheduling.k8s.io", "priorityclasses", "", said),
        reader.get("kueue.x-k8s.io", "workloadpriorityclasses", "", said),
    )
    return max((int(one.get("value") or 0) for one in found if one is not None), default=SYSTEM.get(said, 0))


def default_priority_class(reader: Reader) -> Object | None:
    """Return the PriorityClass of pods that name no class: among the classes that are marked as global default, the one
    with the lowest priority."""
    marked = [one for one in reader.list("scheduling.k8s.io", "priorityclasses") if one.get("globalDefault")]
    return min(marked, key=lambda one: int(one.get("value", 0)), default=None)


def _refused(resource: Resource, pod: Object, what: str, computed: str) -> StatusError:
    why = (
        f"{what} must not be provided in pod spec; priority admission controller computed {computed} "
        "from the given PriorityClass name"
    )
    return forbidden(resource.group, resource.plural, pod["metadata"].get("name", ""), why)


def pod_group_priority(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Set the priority of a PodGroup, and of the templates of a Workload, from their priority classes."""
    if old is not None:
        return
    group = resource.plural == "podgroups"
    specs = [obj["spec"]] if group else obj["spec"].get("podGroupTemplates") or ()
    for spec in specs:
        if group or spec.get("priorityClassName"):
            spec["priority"], _ = _priority_of(resource, obj | {"spec": spec}, reader)


def pod_group_workload(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Check that the Workload that a PodGroup names exists, and that it has the template that the PodGroup names."""
    reference = (obj["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if old is not None or not reference:
        return
    name, template = reference.get("workloadName", ""), reference.get("podGroupTemplateName", "")
    workload = reader.get(resource.group, "workloads", obj["metadata"].get("namespace", ""), name)
    why = ""
    if workload is None:
        why = f'Workload "{name}" not found'
    elif template not in (one.get("name") for one in workload["spec"].get("podGroupTemplates") or ()):
        why = f'PodGroupTemplate "{template}" not found in Workload "{name}"'
    if why:
        raise forbidden(resource.group, resource.plural, obj["metadata"].get("name", ""), f"PodGroup rejected: {why}")


def one_default_priority_class(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Refuse a second PriorityClass that is the global default."""
    if not obj.get("globalDefault"):
        return
    other = default_priority_class(reader)
    if other is not None and other["metadata"]["name"] != obj["metadata"].get("name"):
        marked = other["metadata"]["name"]
        why = f"PriorityClass {marked} is already marked as default. Only one default can exist"
        raise forbidden(resource.group, resource.plural, obj["metadata"].get("name", ""), why)


def default_toleration_seconds(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Add tolerations that let a pod stay for five minutes on a node that is not ready or not reachable. Tolerations
    that the pod already has are kept."""
    tolerations = obj["spec"].get("tolerations") or ()
    missing = [
        key
        for key in (NOT_READY, UNREACHABLE)
        if not any(
            one.get("key", "") in (key, "") and one.get("effect", "") in ("NoExecute", "") for one in tolerations
        )
    ]
    if missing:
        obj["spec"]["tolerations"] = [*tolerations, *(_for_a_while(key) for key in missing)]


def _for_a_while(key: str) -> Object:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_S}


def runtime_class(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Set spec.overhead, the node selector and the tolerations of a pod from its RuntimeClass."""
    if old is not None:
        return
    spec = obj["spec"]
    name = spec.get("runtimeClassName")
    found = reader.get("node.k8s.io", "runtimeclasses", "", name) if name else None
    if name and found is None:
        raise _pod_rejected(resource, obj, f'RuntimeClass "{name}" not found')
    overhead = ((found or {}).get("overhead") or {}).get("podFixed")
    if spec.get("overhead") and not overhead:
        raise _pod_rejected(resource, obj, "Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if overhead:
        if spec.get("overhead", overhead) != overhead:
            raise _pod_rejected(resource, obj, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(overhead)
    if place := (found or {}).get("scheduling"):
        _place(resource, obj, place)


def _place(resource: Resource, pod: Object, place: Object) -> None:
    spec, selector = pod["spec"], place.get("nodeSelector") or {}
    own = spec.get("nodeSelector") or {}
    if any(own.get(key, value) != value for key, value in selector.items()):
        raise _pod_rejected(resource, pod, "conflict: runtimeClass.scheduling.nodeSelector and pod.spec.nodeSelector")
    if selector:
        spec["nodeSelector"] = own | selector
    extra = [one for one in place.get("tolerations") or () if one not in (spec.get("tolerations") or ())]
    if extra:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *extra]


def _pod_rejected(resource: Resource, pod: Object, why: str) -> StatusError:
    return forbidden(resource.group, resource.plural, pod["metadata"].get("name", ""), f"pod rejected: {why}")


def storage_object_in_use_protection(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Add the finalizer that delays the deletion of a volume claim or volume while it is used."""
    if old is not None:
        return
    short = "pvc" if resource.plural == "persistentvolumeclaims" else "pv"
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if f"kubernetes.io/{short}-protection" not in finalizers:
        finalizers.append(f"kubernetes.io/{short}-protection")


def volume_claim_resize(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Check that a bound volume claim grows only if its class allows it. Raises `StatusError` 403."""
    # validation checks the changes of a claim that is not bound
    if old is None or (old.get("status") or {}).get("phase") != "Bound":
        return
    asked = (((one["spec"].get("resources") or {}).get("requests") or {}) for one in (obj, old))
    now, before = (quantity.of(one.get("storage", "0")) for one in asked)
    if now <= before:
        return
    name = obj["spec"].get("storageClassName")
    found = reader.get("storage.k8s.io", "storageclasses", "", name) if name else None
    if not (found or {}).get("allowVolumeExpansion"):
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support "
            "resize"
        )
        raise forbidden(resource.group, resource.plural, obj["metadata"]["name"], why)


def ephemeral_containers(resource: Resource, obj: Object, old: Object, reader: Reader) -> None:
    """Refuse new ephemeral containers if the pod's node would never start them. Otherwise kubectl debug would wait for
    ever. Raises `StatusError` 403."""
    late, name = obj["spec"].get("ephemeralContainers") or (), obj["spec"].get("nodeName")
    if not name or len(late) <= len(old["spec"].get("ephemeralContainers") or ()):
        return
    node = reader.get("", "nodes", "", name)
    runtime = ((node or {}).get("status") or {}).get("nodeInfo", {}).get("containerRuntimeVersion", "")
    if runtime.startswith("simulated://"):
        why = f"node {name} is simulated: nothing runs in its pods, and no container is added to them"
        raise forbidden(resource.group, resource.plural, obj["metadata"]["name"], why)


def limit_ranges(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Apply the LimitRanges of the namespace: set the defaults of containers, and check the limits on containers, pods
    and volume claims."""
    if old is None:
        ranges = list(reader.list("", "limitranges", obj["metadata"].get("namespace", "")))
        if ranges:
            limit_ranger.apply(resource, obj, ranges)


def resource_quota(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Refuse an object that exceeds a ResourceQuota of its namespace. This plug-in checks every create, but only those
    updates that concern volume claims and services. `resized` checks updates of pods, and `grown` checks the quota of
    bytes."""
    namespace = obj["metadata"].get("namespace")
    if namespace and (old is None or resource.key in (CLAIMS, SERVICES)):
        _hold(resource, obj, old, namespace, reader)


def _hold(resource: Resource, obj: Object, old: Object | None, namespace: str, reader: Reader) -> None:
    if quotas := list(reader.list("", "resourcequotas", namespace)):
        there = partial(reader.decided, *resource.key, namespace)
        quota.enforce(resource, obj, quotas, reader.held(namespace), there, old)


def grown(resource: Resource, obj: Object, old: Object, reader: Reader) -> None:
    """Check that an update does not take the namespace above its quota of bytes (`phalanx.dev/bytes`). Raises
    `StatusError` 403."""
    namespace = obj["metadata"].get("namespace")
    if namespace and (quotas := list(reader.list("", "resourcequotas", namespace))):
        quota.enforce_growth(resource, obj, old, quotas, reader.held(namespace))


def resized(resource: Resource, obj: Object, old: Object, reader: Reader) -> None:
    """Check the resize of a pod against limit ranges and quotas, by the same rules as a new pod. Raises `StatusError`
    403."""
    meta = obj["metadata"]
    namespace = meta.get("namespace", "")
    if ranges := list(reader.list("", "limitranges", namespace)):
        limit_ranger.apply(resource, obj, ranges)
    _hold(resource, obj, old, namespace, reader)


def addresses(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Assign cluster addresses and node ports to services (kube-apiserver does this in the REST storage of
    services)."""
    before = old["spec"] if old is not None else {}
    service_addresses.allocate(obj, before, reader.addressed())


PODS, NODES, SERVICES = ("", "pods"), ("", "nodes"), ("", "services")
POD_GROUPS, WORKLOADS = ("scheduling.k8s.io", "podgroups"), ("scheduling.k8s.io", "workloads")
CLAIMS, VOLUMES = ("", "persistentvolumeclaims"), ("", "persistentvolumes")

# The plug-ins in kube-apiserver's order, each with the kinds of objects that it checks or changes (None: all kinds).
PLUGINS: tuple[tuple[Plugin, frozenset[Key] | None], ...] = (
    (namespace_lifecycle, None),
    (limit_ranges, frozenset({PODS, CLAIMS})),
    (service_account, frozenset({PODS})),
    (taint_nodes_by_condition, frozenset({NODES})),
    (priority, frozenset({PODS})),
    (priority_cap, None),
    (pod_group_priority, frozenset({POD_GROUPS, WORKLOADS})),
    (pod_group_workload, frozenset({POD_GROUPS})),
    (one_default_priority_class, frozenset({("scheduling.k8s.io", "priorityclasses")})),
    (default_toleration_seconds, frozenset({PODS})),
    (runtime_class, frozenset({PODS})),
    (topology_labels, frozenset({PODS})),
    (storage_object_in_use_protection, frozenset({CLAIMS, VOLUMES})),
    (volume_claim_resize, frozenset({CLAIMS})),
    (addresses, frozenset({SERVICES})),
    (volcano.default, volcano.KINDS),
    (limited_priorities, frozenset({PODS})),
    (resource_quota, None),
)


@cache
def _plugins_of(key: Key) -> tuple[Plugin, ...]:
    return tuple(plugin for plugin, kinds in PLUGINS if kinds is None or key in kinds)


def admit(resource: Resource, obj: Object, old: Object | None, reader: Reader) -> None:
    """Run all plug-ins for one write. They may edit `obj`, and may raise StatusError. `old`: the object before the
    write; None for a create."""
    for plugin in _plugins_of(resource.key):
        plugin(resource, obj, old, reader)
