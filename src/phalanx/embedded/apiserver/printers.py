"""The rows of `kubectl get` for each built-in kind: its columns, and the cells that stand under them.

Columns are written as one line: `Name` alone is a string, `Value:integer` has a type, `Node+` shows in `-o wide` only.
A kind that is not in `PRINTERS` shows its name and when it was created, as on the real server. Source of the columns
and of the wording in cells: k8s.io/kubernetes/pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.embedded.apiserver.duration import human, seconds_of, since
from phalanx.embedded.apiserver.pod_row import pod_cells

Object = dict[str, Any]
Cells = Callable[[Object, float], list[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a Table."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printer:
    """`cells(object, now in seconds since the epoch)` has one value per column."""

    columns: tuple[Column, ...]
    cells: Cells


def columns(line: str) -> tuple[Column, ...]:
    """`Name | Value:integer | Node+` -> columns."""
    return tuple(_column(text.strip()) for text in line.split("|"))


def _column(text: str) -> Column:
    text, wide = text.removesuffix("+"), text.endswith("+")
    name, _, kind = text.partition(":")
    return Column(name=name, type=kind or "string", format="name" if name == "Name" else "", priority=1 if wide else 0)


def age(obj: Object, now_s: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now_s)


def labels_text(labels: Mapping[str, str] | None) -> str:
    """`a=b,c=d`; `<none>` for no labels."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else "<none>"


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector as kubectl writes it: `a=b,c in (d,e),!f`; `<none>` where it selects nothing."""
    if not selector:
        return "<none>"
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        key, values = term["key"], ",".join(sorted(term.get("values") or ()))
        words = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, words.get(term["operator"], "<error>")))
    return ",".join(text for _, text in sorted(terms)) or "<none>"


def containers_text(template: Object | None) -> tuple[str, str]:
    """The names and the images of a pod template's containers."""
    found = ((template or {}).get("spec") or {}).get("containers") or ()
    return ",".join(one["name"] for one in found), ",".join(one.get("image", "") for one in found)


def _condition(obj: Object, kind: str) -> bool:
    found = obj.get("status", {}).get("conditions") or ()
    return any(one["type"] == kind and one["status"] == "True" for one in found)


def _name_and_age(*between: Callable[[Object], Any]) -> Cells:
    """Name, some cells, Age."""
    return lambda obj, now_s: [obj["metadata"]["name"], *(cell(obj) for cell in between), age(obj, now_s)]


# --- batch -------------------------------------------------------------------------------------------------------


def _job_cells(job: Object, now_s: float) -> list[Any]:
    spec, status = job["spec"], job.get("status", {})
    names, images = containers_text(spec.get("template"))
    selector = selector_text(spec.get("selector"))
    name = job["metadata"]["name"]
    duration = _job_duration(status, now_s)
    return [name, _job_state(job), _completions(spec, status), duration, age(job, now_s), names, images, selector]


def _job_state(job: Object) -> str:
    if _condition(job, "Complete"):
        return "Complete"
    if _condition(job, "Failed"):
        return "Failed"
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((state for state in ("Suspended", "FailureTarget") if _condition(job, state)), "Running")


def _completions(spec: Object, status: Object) -> str:
    succeeded, wanted = status.get("succeeded") or 0, spec.get("completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Object, now_s: float) -> str:
    if not status.get("startTime"):
        return ""
    end_s = seconds_of(status["completionTime"]) if status.get("completionTime") else now_s
    return human(end_s - seconds_of(status["startTime"]))


def _cron_job_cells(job: Object, now_s: float) -> list[Any]:
    spec, status, inner = job["spec"], job.get("status", {}), job["spec"].get("jobTemplate", {}).get("spec", {})
    last = since(status["lastScheduleTime"], now_s) if status.get("lastScheduleTime") else "<none>"
    suspended = {None: "<unset>", True: "True", False: "False"}[spec.get("suspend")]
    return [
        job["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        suspended,
        len(status.get("active") or ()),
        last,
        age(job, now_s),
        *containers_text(inner.get("template")),
        selector_text(inner.get("selector")),
    ]


# --- core --------------------------------------------------------------------------------------------------------


def _node_cells(node: Object, now_s: float) -> list[Any]:
    status, info = node.get("status", {}), node.get("status", {}).get("nodeInfo", {})
    addresses = {one["type"]: one["address"] for one in reversed(status.get("addresses") or ())}
    ready = next((one for one in status.get("conditions") or () if one["type"] == "Ready"), None)
    state = "Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"
    return [
        node["metadata"]["name"],
        state + (",SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else ""),
        ",".join(sorted(_roles(node["metadata"].get("labels") or {}))) or "<none>",
        age(node, now_s),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        *(info.get(key) or "<unknown>" for key in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _roles(labels: Mapping[str, str]) -> set[str]:
    prefix = "node-role.kubernetes.io/"
    found = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    return {role for role in found | {labels.get("kubernetes.io/role", "")} if role}


def _service_cells(service: Object, now_s: float) -> list[Any]:
    spec = service["spec"]
    return [
        service["metadata"]["name"],
        spec.get("type", ""),
        (spec.get("clusterIPs") or [spec.get("clusterIP") or "<none>"])[0],
        _external_ip(service),
        ",".join(map(_port, spec.get("ports") or ())) or "<none>",
        age(service, now_s),
        labels_text(spec.get("selector")),
    ]


def _external_ip(service: Object) -> str:
    spec = service["spec"]
    external = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or "<none>"
        case "LoadBalancer":
            points = service.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
            given = sorted({one.get("ip") or one.get("hostname") or "" for one in points} - {""})
            return ",".join(given + external) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return "<unknown>"


def _port(port: Object) -> str:
    number = f"{port['port']}:{port['nodePort']}" if port.get("nodePort") else port["port"]
    return f"{number}/{port.get('protocol', 'TCP')}"


def _event_cells(event: Object, now_s: float) -> list[Any]:
    first = event.get("firstTimestamp") or event.get("eventTime")
    series, target, source = event.get("series"), event.get("involvedObject", {}), event.get("source", {})
    last = series.get("lastObservedTime") if series else event.get("lastTimestamp") or first
    host = source.get("host") or event.get("reportingInstance")
    component = source.get("component") or event.get("reportingComponent") or ""
    return [
        since(last, now_s),
        event.get("type", ""),
        event.get("reason", ""),
        "/".join(part for part in (target.get("kind", "").lower(), target.get("name")) if part),
        target.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        event.get("message", "").strip(),
        since(first, now_s),
        (series.get("count") if series else event.get("count")) or 1,
        event["metadata"]["name"],
    ]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: Iterable[str] | None) -> str:
    held = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in held)


def _phase(obj: Object) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else obj.get("status", {}).get("phase", "")


def _storage_class(obj: Object) -> str:
    beta = (obj["metadata"].get("annotations") or {}).get("volume.beta.kubernetes.io/storage-class")
    return beta if beta is not None else obj["spec"].get("storageClassName") or ""


def _claim_cells(claim: Object, now_s: float) -> list[Any]:
    spec, status = claim["spec"], claim.get("status", {})
    bound = bool(spec.get("volumeName"))
    return [
        claim["metadata"]["name"],
        _phase(claim),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        _storage_class(claim),
        spec.get("volumeAttributesClassName") or "<unset>",
        age(claim, now_s),
        spec.get("volumeMode") or "<unset>",
    ]


def _volume_cells(volume: Object, now_s: float) -> list[Any]:
    spec, claim = volume["spec"], volume["spec"].get("claimRef")
    return [
        volume["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(volume),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _storage_class(volume),
        spec.get("volumeAttributesClassName") or "<unset>",
        volume.get("status", {}).get("reason", ""),
        age(volume, now_s),
        spec.get("volumeMode") or "<unset>",
    ]


def _quota_cells(quota: Object, now_s: float) -> list[Any]:
    status = quota.get("status", {})
    hard, used = status.get("hard") or {}, status.get("used") or {}
    lines: tuple[list[str], list[str]] = [], []
    for name in sorted(hard):
        lines[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [quota["metadata"]["name"], ", ".join(lines[0]), ", ".join(lines[1]), age(quota, now_s)]


def _endpoints_cells(endpoints: Object, now_s: float) -> list[Any]:
    found = [
        f"{address['ip']}:{port['port']}" if port else address["ip"]
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or (None,)
        for address in subset.get("addresses") or ()
    ]
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [endpoints["metadata"]["name"], shown if endpoints.get("subsets") else "<none>", age(endpoints, now_s)]


# --- the rest ----------------------------------------------------------------------------------------------------


def _int_or_string(value: Any) -> str:
    return "N/A" if value is None else str(value)


def _binding_cells(binding: Object, now_s: float) -> list[Any]:
    role, subjects = binding["roleRef"], binding.get("subjects") or ()

    def named(kind: str) -> str:
        found = (one for one in subjects if one.get("kind") == kind)
        return ", ".join(f"{one['namespace']}/{one['name']}" if one.get("namespace") else one["name"] for one in found)

    who = [named(kind) for kind in ("User", "Group", "ServiceAccount")]
    return [binding["metadata"]["name"], f"{role['kind']}/{role['name']}", age(binding, now_s), *who]


def _deployment_cells(deployment: Object, now_s: float) -> list[Any]:
    spec, status = deployment["spec"], deployment.get("status", {})
    return [
        deployment["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(deployment, now_s),
        *containers_text(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _replica_set_cells(replicas: Object, now_s: float) -> list[Any]:
    spec, status = replicas["spec"], replicas.get("status", {})
    counts = (spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0))
    shown = (*containers_text(spec.get("template")), selector_text(spec.get("selector")))
    return [replicas["metadata"]["name"], *counts, age(replicas, now_s), *shown]


def _stateful_set_cells(replicas: Object, now_s: float) -> list[Any]:
    spec, status = replicas["spec"], replicas.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [replicas["metadata"]["name"], ready, age(replicas, now_s), *containers_text(spec.get("template"))]


def _pod_template_cells(template: Object, now_s: float) -> list[Any]:
    inner = template.get("template", {})
    labels = labels_text(inner.get("metadata", {}).get("labels"))
    return [template["metadata"]["name"], *containers_text(inner), labels]


def _printer(line: str, cells: Cells) -> Printer:
    return Printer(columns=columns(line), cells=cells)


_BINDING = "Name | Role | Age | Users+ | Groups+ | ServiceAccounts+"
_EVENT = _printer(
    "Last Seen | Type | Reason | Object | Subobject+ | Source+ | Message | First Seen+ | Count+ | Name+", _event_cells
)

PRINTERS: Mapping[tuple[str, str], Printer] = {
    ("", "Pod"): _printer(
        "Name | Ready | Status | Restarts | Age | IP+ | Node+ | Nominated Node+ | Readiness Gates+", pod_cells
    ),
    ("", "Node"): _printer(
        "Name | Status | Roles | Age | Version | Internal-IP+ | External-IP+ | OS-Image+ | Kernel-Version+"
        " | Container-Runtime+",
        _node_cells,
    ),
    ("", "Namespace"): _printer(
        "Name | Status | Age", _name_and_age(lambda one: one.get("status", {}).get("phase", ""))
    ),
    ("", "ConfigMap"): _printer(
        "Name | Data | Age", _name_and_age(lambda one: len(one.get("data") or ()) + len(one.get("binaryData") or ()))
    ),
    ("", "Secret"): _printer(
        "Name | Type | Data | Age",
        _name_and_age(lambda one: one.get("type", ""), lambda one: len(one.get("data") or ())),
    ),
    ("", "Service"): _printer("Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector+", _service_cells),
    ("", "ServiceAccount"): _printer("Name | Age", _name_and_age()),
    ("", "Event"): _EVENT,
    ("", "Endpoints"): _printer("Name | Endpoints | Age", _endpoints_cells),
    ("", "PersistentVolumeClaim"): _printer(
        "Name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | VolumeMode+",
        _claim_cells,
    ),
    ("", "PersistentVolume"): _printer(
        "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass"
        " | Reason | Age | VolumeMode+",
        _volume_cells,
    ),
    ("", "PodTemplate"): _printer("Name | Containers | Images | Pod Labels", _pod_template_cells),
    ("", "ResourceQuota"): _printer("Name | Request | Limit | Age", _quota_cells),
    ("batch", "Job"): _printer(
        "Name | Status | Completions | Duration | Age | Containers+ | Images+ | Selector+", _job_cells
    ),
    ("batch", "CronJob"): _printer(
        "Name | Schedule | Timezone | Suspend:boolean | Active:integer | Last Schedule | Age | Containers+ | Images+"
        " | Selector+",
        _cron_job_cells,
    ),
    ("apps", "Deployment"): _printer(
        "Name | Ready | Up-to-date | Available | Age | Containers+ | Images+ | Selector+", _deployment_cells
    ),
    ("apps", "ReplicaSet"): _printer(
        "Name | Desired:integer | Current:integer | Ready:integer | Age | Containers+ | Images+ | Selector+",
        _replica_set_cells,
    ),
    ("apps", "StatefulSet"): _printer("Name | Ready | Age | Containers+ | Images+", _stateful_set_cells),
    ("coordination.k8s.io", "Lease"): _printer(
        "Name | Holder | Age", _name_and_age(lambda one: one.get("spec", {}).get("holderIdentity") or "")
    ),
    ("events.k8s.io", "Event"): _EVENT,
    ("node.k8s.io", "RuntimeClass"): _printer(
        "Name | Handler | Age", _name_and_age(lambda one: one.get("handler", ""))
    ),
    ("policy", "PodDisruptionBudget"): _printer(
        "Name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age",
        _name_and_age(
            lambda one: _int_or_string(one["spec"].get("minAvailable")),
            lambda one: _int_or_string(one["spec"].get("maxUnavailable")),
            lambda one: one.get("status", {}).get("disruptionsAllowed", 0),
        ),
    ),
    ("rbac.authorization.k8s.io", "RoleBinding"): _printer(_BINDING, _binding_cells),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _printer(_BINDING, _binding_cells),
    ("scheduling.k8s.io", "PriorityClass"): _printer(
        "Name | Value:integer | Global-Default:boolean | Age | PreemptionPolicy",
        lambda one, now_s: [
            one["metadata"]["name"],
            one.get("value", 0),
            bool(one.get("globalDefault")),
            age(one, now_s),
            one.get("preemptionPolicy") or "<unset>",
        ],
    ),
}
