"""Parses a flavor: the `spec` of the Flavor resource (`phalanx.dev/v1`), and of flavors in files."""

from __future__ import annotations

from typing import Any

from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.model.node import Flavor
from phalanx.model.pod import Toleration

_OPERATORS, _EFFECTS = ("Equal", "Exists"), ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def read_flavor(name: str, spec: Any) -> Flavor:
    """Raises Misread."""
    said = Fields(spec, ("spec",))
    found = Flavor(
        name=name,
        labels=said.pairs("labels"),
        tolerations=tuple(_toleration(entry) for entry in said.each("tolerations")),
    )
    said.done()
    return found


def _toleration(said: Fields) -> Toleration:
    found = Toleration(
        key=said.text("key"),
        operator=said.text("operator", "Equal"),
        value=said.text("value"),
        effect=said.text("effect"),
    )
    said.done()
    if found.operator not in _OPERATORS:
        raise Misread((*said.path, "operator"), f"{found.operator!r} is none of {', '.join(_OPERATORS)}")
    if found.effect not in _EFFECTS:
        raise Misread((*said.path, "effect"), f"{found.effect!r} is none of {', '.join(_EFFECTS[1:])}")
    if not found.key and found.operator != "Exists":
        raise Misread((*said.path, "key"), "without a key, which tolerates every taint, the operator is Exists")
    return found
