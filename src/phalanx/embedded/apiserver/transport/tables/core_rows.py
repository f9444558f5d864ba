"""The cells of nodes, services, events and volumes. Source: the printers of kube-apiserver (see `printers.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from phalanx.embedded.apiserver.transport.tables.printer import Object, age, human, labels_text, since


def node_cells(node: Object, now_s: float) -> list[object]:
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


def service_cells(service: Object, now_s: float) -> list[object]:
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


# Fields that have another name in events.k8s.io/v1. The cells are computed from the names of core v1.
_NEW_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}


def new_event_cells(event: Object, now_s: float) -> list[object]:
    """Return the cells of an events.k8s.io/v1 Event."""
    return event_cells({**event, **{old: event[new] for old, new in _NEW_EVENT_NAMES.items() if new in event}}, now_s)


def event_cells(event: Object, now_s: float) -> list[object]:
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


def claim_cells(claim: Object, now_s: float) -> list[object]:
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


def volume_cells(volume: Object, now_s: float) -> list[object]:
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


def quota_cells(quota: Object, now_s: float) -> list[object]:
    status = quota.get("status", {})
    hard, used = status.get("hard") or {}, status.get("used") or {}
    lines: tuple[list[str], list[str]] = [], []
    for name in sorted(hard):
        lines[name.startswith("limits.")].append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [quota["metadata"]["name"], ", ".join(lines[0]), ", ".join(lines[1]), age(quota, now_s)]


def endpoints_cells(endpoints: Object, now_s: float) -> list[object]:
    found = [
        f"{address['ip']}:{port['port']}" if port else address["ip"]
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or (None,)
        for address in subset.get("addresses") or ()
    ]
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [endpoints["metadata"]["name"], shown if endpoints.get("subsets") else "<none>", age(endpoints, now_s)]


def slice_cells(endpoint_slice: Object, now_s: float) -> list[object]:
    meta = endpoint_slice["metadata"]
    ports = [str(one.get("port") or one.get("name") or "*") for one in endpoint_slice.get("ports") or ()]
    addresses = [at for one in endpoint_slice.get("endpoints") or () for at in one.get("addresses") or ()]
    shown = [_first_three(ports), _first_three(addresses)]
    return [meta["name"], endpoint_slice.get("addressType", ""), *shown, age(endpoint_slice, now_s)]


def _first_three(found: list[str]) -> str:
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return (",".join(found[:3]) + more) or "<unset>"


def ingress_cells(ingress: Object, now_s: float) -> list[object]:
    spec = ingress["spec"]
    hosts = [one["host"] for one in spec.get("rules") or () if one.get("host")]
    more = f" + {len(hosts) - 3} more..." if len(hosts) > 3 else ""
    points = ingress.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    addresses = ",".join(one.get("ip") or one.get("hostname") or "" for one in points)
    ports = "80, 443" if spec.get("tls") else "80"
    named = spec.get("ingressClassName") or "<none>"
    return [
        ingress["metadata"]["name"],
        named,
        (",".join(hosts[:3]) + more) or "*",
        addresses,
        ports,
        age(ingress, now_s),
    ]


def ingress_class_cells(ingress_class: Object, now_s: float) -> list[object]:
    meta, spec = ingress_class["metadata"], ingress_class.get("spec") or {}
    chosen = (meta.get("annotations") or {}).get("ingressclass.kubernetes.io/is-default-class") == "true"
    shown = "<none>"
    if given := spec.get("parameters"):
        group = f".{given['apiGroup']}" if given.get("apiGroup") is not None else ""
        shown = f"{given.get('kind', '')}{group}/{given.get('name', '')}"
    name = meta["name"] + (" (default)" if chosen else "")
    return [name, spec.get("controller", ""), shown, age(ingress_class, now_s)]


def signing_cells(request: Object, now_s: float) -> list[object]:
    """Return the cells of a CertificateSigningRequest."""
    spec, status = request["spec"], request.get("status") or {}
    kinds = {one.get("type") for one in status.get("conditions") or ()}
    state = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    state += ",Failed" if "Failed" in kinds else ""
    lasting_s = spec.get("expirationSeconds")
    return [
        request["metadata"]["name"],
        age(request, now_s),
        spec.get("signerName") or "<none>",
        spec.get("username", ""),
        "<none>" if lasting_s is None else human(lasting_s),
        state + (",Issued" if status.get("certificate") else ""),
    ]


def storage_class_cells(storage_class: Object, now_s: float) -> list[object]:
    meta = storage_class["metadata"]
    chosen = (meta.get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        meta["name"] + (" (default)" if chosen else ""),
        storage_class.get("provisioner", ""),
        storage_class.get("reclaimPolicy") or "<unset>",
        storage_class.get("volumeBindingMode") or "<unset>",
        bool(storage_class.get("allowVolumeExpansion")),
        age(storage_class, now_s),
    ]
