"""Values that scontrol is given: counts and minutes."""

from __future__ import annotations

from phalanx.slurm.notation import times
from phalanx.slurm.options import Usage


def count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Usage(f'Invalid {name} value: "{text}"')
    return int(text)


def minutes(text: str) -> int | None:
    try:
        return times.read_limit_min(text)
    except times.TimeError:
        raise Usage("scontrol: error: Invalid TimeLimit value") from None
