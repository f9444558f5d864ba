"""Amounts as people write them: cpu in cores, bytes with a binary suffix, all else as a number."""

from __future__ import annotations

from phalanx.model.shape import CPU


def shown(resource: str, amount: int) -> str:
    """As people write it: never rounded, but bytes, to four digits."""
    if resource == CPU:
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    if not (resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")):
        return str(amount)
    for suffix, unit in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if abs(amount) >= unit:
            return f"{amount / unit:.4g}{suffix}"
    return str(amount)
