"""Amounts as people write them: cpu in cores, bytes with a binary suffix, all else as a number.

Nodes hold whole amounts. What a queue is charged with may be a part of one: half a device, if that is what a pod
shares. Parts are exact fractions, so what is given back leaves nothing behind."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from phalanx.model.pod import CPU

Amount: TypeAlias = int | Fraction


def json_number(amount: Amount) -> int | float:
    """As JSON has it."""
    return int(amount) if amount == int(amount) else float(amount)


def format_amount(resource: str, amount: Amount) -> str:
    """As people write it: never rounded, but bytes, to four digits, and parts of devices, to thousandths."""
    if resource == CPU:
        return f"{float(amount / 1000):.3f}".rstrip("0").rstrip(".")
    if isinstance(amount, Fraction) and amount.denominator != 1:
        return f"{float(amount):.3f}".rstrip("0").rstrip(".")
    if not (resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")):
        return str(amount)
    for suffix, unit in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if not -unit < amount < unit:
            return f"{float(amount / unit):.4g}{suffix}"
    return str(amount)
