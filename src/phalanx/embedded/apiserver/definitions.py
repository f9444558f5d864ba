"""The published OpenAPI definitions of Kubernetes 1.36, as the package kubernetes-validate ships them.

They are converted for JSON Schema validators: every optional type is `[T, "null"]`, references point into `$defs`,
enums of apiVersion and kind are added. The 1.6 MB are read once, when the first schema is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

RELEASE = "v1.36.0"


@cache
def definitions() -> Mapping[str, Mapping[str, Any]]:
    """Every definition by name, `io.k8s.api.core.v1.Pod`."""
    path = files("kubernetes_validate") / "kubernetes-json-schema" / f"{RELEASE}-local" / "_definitions.json"
    found: Mapping[str, Mapping[str, Any]] = msgspec.json.decode(path.read_bytes())["$defs"]
    return found


def definition(name: str) -> Mapping[str, Any]:
    """One definition. Raises KeyError."""
    return definitions()[name]
