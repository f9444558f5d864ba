"""AppWrappers of the first generation, with Jobs as their items."""

from __future__ import annotations

from typing import Any

from phalanx.dialects.frame.dialect import Object

POD = {
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}],
}


def job(name: str = "j") -> Object:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": POD}}}


def wrapper(*items: Object, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    meta = {"name": "aw", "namespace": "space", "uid": "u", "labels": labels or {}}
    return {"metadata": meta, "spec": {"suspend": True, "resources": {"GenericItems": list(items)}, **spec}}
