"""Amounts as quantities of the Kubernetes API, without loss."""

from __future__ import annotations

from fractions import Fraction

from phalanx.model.pod import CPU, Amount

_SUFFIXES = ((6, "Ei"), (5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki"))


def quantity(resource: str, value: Amount) -> str:
    """Return `value` (cpu in millicores, others in whole units) as a quantity. Bytes get the largest suffix that
    divides them."""
    if isinstance(value, Fraction) and value.denominator != 1:
        return f"{value * 1000}m"
    if resource == CPU:
        return f"{value}m" if value % 1000 else str(value // 1000)
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        for power, suffix in _SUFFIXES:
            if value and value % 1024**power == 0:
                return f"{value // 1024**power}{suffix}"
    return str(value)
