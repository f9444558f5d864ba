"""The kinds of metrics.k8s.io. Only their names and schemas are here, because their objects are measured at each
request."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Resource

GROUP = "metrics.k8s.io"
_USAGE: dict[str, object] = {
    "type": "object",
    "description": "The used cpu, averaged over the window, and the memory that cannot be reclaimed under pressure.",
    "additionalProperties": {"x-kubernetes-int-or-string": True},
}
_WHEN: dict[str, object] = {
    "timestamp": {"type": "string", "format": "date-time", "description": "The time at which the window ends."},
    "window": {"type": "string", "description": "The length of the window over which cpu is averaged."},
}
_CONTAINER: dict[str, object] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "usage": _USAGE},
}


def _kind(kind: str, plural: str, fields: dict[str, object], path: str) -> Resource:
    columns = (
        {"name": "CPU", "type": "string", "jsonPath": f"{path}.cpu"},
        {"name": "Memory", "type": "string", "jsonPath": f"{path}.memory"},
        {"name": "Window", "type": "string", "jsonPath": ".window"},
    )
    return Resource(
        group=GROUP,
        version="v1beta1",
        kind=kind,
        plural=plural,
        list_kind=f"{kind}List",
        namespaced=plural == "pods",
        verbs=("get", "list"),
        schema={"type": "object", "properties": {**_WHEN, **fields}},
        custom=True,
        printer_columns=columns,
    )


METRICS: tuple[Resource, ...] = (
    _kind("NodeMetrics", "nodes", {"usage": _USAGE}, ".usage"),
    _kind("PodMetrics", "pods", {"containers": {"type": "array", "items": _CONTAINER}}, ".containers[*].usage"),
)
