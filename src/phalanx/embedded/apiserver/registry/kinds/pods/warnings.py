"""Warnings (the header `Warning:`) about fields of a pod or template that are allowed but probably a mistake.

Source of the rules and texts: k8s.io/kubernetes/pkg/api/pod/warnings.go and pkg/api/node/util.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from phalanx.embedded.apimachinery.schema import formats, quantity

Spec = Mapping[str, Any]

OLD_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
OLD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
OLD_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
APPARMOR = 'deprecated since v1.30; use the "appArmorProfile" field instead'
NO_SELECTOR = "a null labelSelector results in matching no pod"
BYTES = ("memory", "ephemeral-storage")
NEGATIVE_GRACE = "must be >= 0; negative values are invalid and will be treated as 1"


def of_name(obj: Spec, text: str) -> Iterator[str]:
    """Yield a warning if a name that becomes a host name is not a DNS label."""
    if problems := formats.dns_label(obj["metadata"].get("name", "")):
        yield f"{text}; a DNS label is recommended: [{' '.join(problems)}]"


def of_pod(pod: Spec, path: str = "") -> Iterator[str]:
    """Yield the warnings about a pod, or about the template at `path`."""
    spec, meta = pod["spec"], pod.get("metadata") or {}
    where = f"{path}." if path else ""
    annotations = meta.get("annotations") or {}
    yield from _of_placement(spec, f"{where}spec")
    for key in annotations:
        if key in OLD_ANNOTATIONS:
            yield f"{where}metadata.annotations[{key}]: {OLD_ANNOTATIONS[key]}"
    yield from _of_volumes(spec, f"{where}spec")
    yield from _of_lists(spec, f"{where}spec")
    yield from _fractions(spec.get("overhead"), f"{where}spec.overhead")
    key = "seccomp.security.alpha.kubernetes.io/pod"
    if key in annotations and not (spec.get("securityContext") or {}).get("seccompProfile"):
        yield f"{where}metadata.annotations[{key}]: {SECCOMP}"
    for container, here in _containers(spec, f"{where}spec"):
        yield from _of_annotations(container, annotations, spec, where)
        yield from _of_container(container, here)
    yield from _of_ports(spec, f"{where}spec")
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield f"{where}spec.terminationGracePeriodSeconds: {NEGATIVE_GRACE}"
    yield from _of_affinity(spec, f"{where}spec.affinity")


def _containers(spec: Spec, path: str) -> Iterator[tuple[Spec, str]]:
    for sort in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(sort) or ()):
            yield container, f"{path}.{sort}[{index}]"


def _of_placement(spec: Spec, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in OLD_LABELS:
            yield f"{path}.nodeSelector[{key}]: {OLD_LABELS[key]}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    place = f"{path}.affinity.nodeAffinity"
    needed, wished = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate((affinity.get(needed) or {}).get("nodeSelectorTerms") or ()):
        yield from _of_term(term, f"{place}.{needed}.nodeSelectorTerms[{index}]")
    for index, wish in enumerate(affinity.get(wished) or ()):
        yield from _of_term(wish.get("preference") or {}, f"{place}.{wished}[{index}].preference")
    for index, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        here, key = f"{path}.topologySpreadConstraints[{index}]", spread.get("topologyKey", "")
        if key in OLD_LABELS:
            yield f"{here}.topologyKey: {key} is {OLD_LABELS[key]}"
        if spread.get("labelSelector") is None:
            yield f"{here}.labelSelector: {NO_SELECTOR}"


def _of_term(term: Spec, path: str) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key", "")
        if key in OLD_LABELS:
            yield f"{path}.matchExpressions[{index}].key: {key} is {OLD_LABELS[key]}"


def _of_volumes(spec: Spec, path: str) -> Iterator[str]:
    volumes = spec.get("volumes") or ()
    for index, volume in enumerate(volumes):
        for sort in volume.keys() & OLD_VOLUMES.keys():
            yield f"{path}.volumes[{index}].{sort}: {OLD_VOLUMES[sort]}"
    sources = [
        (place, one) for place, v in enumerate(volumes) for one in (v.get("projected") or {}).get("sources") or ()
    ]
    tokens = {one["serviceAccountToken"].get("path") for _, one in sources if one.get("serviceAccountToken")}
    for place, one in sources:
        for sort, shown in (("configMap", "configMap"), ("secret", "secrets"), ("downwardAPI", "downwardAPI")):
            for number, item in enumerate((one.get(sort) or {}).get("items") or ()):
                if item.get("path") in tokens:
                    here = f"{path}.volumes[{place}].projected.sources.{shown}[{number}]"
                    yield f'{here}: has duplicated path with ServiceAccountToken "{item["path"]}"'


def _of_lists(spec: Spec, path: str) -> Iterator[str]:
    addresses: set[str] = set()
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        if (ip := alias.get("ip", "")) in addresses:
            yield f'{path}.hostAliases[{index}].ip: duplicate ip "{ip}"'
        addresses.add(ip)
    names = [secret.get("name", "") for secret in spec.get("imagePullSecrets") or ()]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield f'{path}.imagePullSecrets[{index}].name: duplicate name "{name}"'
    for index, name in enumerate(names):
        if not name:
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _of_annotations(container: Spec, annotations: Spec, spec: Spec, where: str) -> Iterator[str]:
    """Yield warnings about deprecated annotations that configure a container, unless a field of the spec has the same
    setting."""
    name, context = container.get("name", ""), container.get("securityContext") or {}
    key = f"container.seccomp.security.alpha.kubernetes.io/{name}"
    if key in annotations and not context.get("seccompProfile"):
        yield f"{where}metadata.annotations[{key}]: {SECCOMP}"
    key = f"container.apparmor.security.beta.kubernetes.io/{name}"
    profile = (spec.get("securityContext") or {}).get("appArmorProfile") or context.get("appArmorProfile")
    if where and key in annotations and not profile:
        yield f"{where}metadata.annotations[{key}]: {APPARMOR}"


def _of_container(container: Spec, path: str) -> Iterator[str]:
    for which in ("limits", "requests"):
        yield from _fractions((container.get("resources") or {}).get(which), f"{path}.resources.{which}")
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name", ""), variable.get("value", "")
        own = f"$({name})"
        if name in seen and (variable.get("valueFrom") or value == own or own not in value):
            yield f'{path}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _fractions(amounts: Mapping[str, str] | None, path: str) -> Iterator[str]:
    """Yield warnings about amounts that are not whole numbers of bytes."""
    for name in BYTES:
        amount = (amounts or {}).get(name)
        if amount is not None and quantity.of(amount) % quantity.NANO:
            yield f'{path}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'


def _of_ports(spec: Spec, path: str) -> Iterator[str]:
    """Yield warnings about ports that occur twice, in one container or in several."""
    known: dict[tuple[Any, Any], list[tuple[Spec, str]]] = {}
    for container, place in _containers(spec, path):
        for index, port in enumerate(container.get("ports") or ()):
            here = f"{place}.ports[{index}]"
            others = known.setdefault((port.get("containerPort"), port.get("protocol")), [])
            for other, there in others:
                if said := _clash(port, other):
                    yield f"{here}: {said} port definition with {there}"
            others.append((port, here))


def _clash(port: Spec, other: Spec) -> str:
    ip, other_ip = port.get("hostIP") or "", other.get("hostIP") or ""
    host, other_host = port.get("hostPort") or 0, other.get("hostPort") or 0
    if (ip, host) == (other_ip, other_host):
        return "duplicate"
    if not host or not other_host:
        return "overlapping"
    return "dangerously ambiguous" if host == other_host and (not ip or not other_ip) else ""


def _of_affinity(spec: Spec, path: str) -> Iterator[str]:
    for sort in ("podAffinity", "podAntiAffinity"):
        terms = (spec.get("affinity") or {}).get(sort) or {}
        for key, inner in (("required", ""), ("preferred", "podAffinityTerm")):
            field = f"{key}DuringSchedulingIgnoredDuringExecution"
            for index, term in enumerate(terms.get(field) or ()):
                selects = (term.get(inner) or {} if inner else term).get("labelSelector")
                if selects is None:
                    here = f"{path}.{sort}.{field}[{index}]" + (f".{inner}" if inner else "")
                    yield f"{here}.labelSelector: {NO_SELECTOR}"
