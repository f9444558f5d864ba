"""What of a pod or template is allowed and probably a mistake: the texts of `Warning:` headers.

Source: k8s.io/kubernetes/pkg/api/pod/warnings.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from phalanx.embedded.apiserver.apimachinery.schema import formats, quantity

Spec = Mapping[str, Any]

OLD_LABELS = {
    "beta.kubernetes.io/arch": ("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": ("v1.14", "kubernetes.io/os"),
    "beta.kubernetes.io/instance-type": ("v1.17", "node.kubernetes.io/instance-type"),
    "failure-domain.beta.kubernetes.io/region": ("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("v1.17", "topology.kubernetes.io/zone"),
}
BYTES = ("memory", "ephemeral-storage")
NEGATIVE_GRACE = "must be >= 0; negative values are invalid and will be treated as 1"


def of_name(obj: Spec, text: str) -> Iterator[str]:
    """What becomes a host name had better be a DNS label."""
    if problems := formats.dns_label(obj["metadata"].get("name", "")):
        yield f"{text}; a DNS label is recommended: [{' '.join(problems)}]"


def of_spec(spec: Spec, path: str) -> Iterator[str]:
    """Of a pod's spec at `path`."""
    for key in spec.get("nodeSelector") or ():
        if key in OLD_LABELS:
            since, instead = OLD_LABELS[key]
            yield f'{path}.nodeSelector[{key}]: deprecated since {since}; use "{instead}" instead'
    names: set[str] = set()
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        name = secret.get("name", "")
        if not name:
            yield f'{path}.imagePullSecrets[{index}]: invalid empty name ""'
        elif name in names:
            yield f'{path}.imagePullSecrets[{index}]: duplicate name "{name}"'
        names.add(name)
    for sort in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(sort) or ()):
            yield from _of_container(container, f"{path}.{sort}[{index}]")
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield f"{path}.terminationGracePeriodSeconds: {NEGATIVE_GRACE}"


def _of_container(container: Spec, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen:
            yield f'{path}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)
    ports: dict[tuple[Any, ...], int] = {}
    for index, port in enumerate(container.get("ports") or ()):
        place = (port.get("containerPort"), port.get("protocol"), port.get("hostPort"), port.get("hostIP"))
        if place in ports:
            yield f"{path}.ports[{index}]: duplicate port definition with {path}.ports[{ports[place]}]"
        ports.setdefault(place, index)
    for which in ("limits", "requests"):
        for name, amount in ((container.get("resources") or {}).get(which) or {}).items():
            if name in BYTES and quantity.of(amount) % quantity.NANO:
                yield (
                    f'{path}.resources.{which}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'
                )
