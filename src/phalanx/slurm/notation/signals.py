"""Signals by name or number, and when a job is warned of its time limit (sbatch(1), --signal)."""

from __future__ import annotations

import re
import signal

_WARNING = re.compile(r"(?:([RB]+):)?([A-Za-z0-9]+)(?:@(\d+))?")
_BEFORE_S = 60


def number_of(text: str) -> int | None:
    """Of `USR1`, `SIGUSR1` or `10`; None: there is no such signal."""
    if text.isdigit():
        return int(text) if 0 < int(text) < 65 else None
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    found = getattr(signal, name, None)
    return int(found) if isinstance(found, signal.Signals) else None


def read_warning(text: str) -> tuple[int, int, bool] | None:
    """Of `[R][B:]USR1@90`: (number, seconds before the end, to the script alone); None: it is none. R is about starting
    beside a reservation, and changes nothing here."""
    found = _WARNING.fullmatch(text)
    number = number_of(found[2]) if found is not None else None
    if found is None or number is None:
        return None
    return number, int(found[3] or _BEFORE_S), "B" in (found[1] or "")
