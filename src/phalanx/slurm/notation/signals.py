"""Parse signals that are given by name or number, and the option --signal, by which a job gets a signal before its time
limit (sbatch(1))."""

from __future__ import annotations

import re
import signal

_WARNING = re.compile(r"(?:([RB]+):)?([A-Za-z0-9]+)(?:@(\d+))?")
_BEFORE_S = 60


def number_of(text: str) -> int | None:
    """Return the number of the signal that the text names, such as `USR1`, `SIGUSR1` or `10`; None if there is no such
    signal."""
    if text.isdecimal():
        return int(text) if 0 < int(text) < 65 else None
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    found = getattr(signal, name, None)
    return int(found) if isinstance(found, signal.Signals) else None


def read_warning(text: str) -> tuple[int, int, bool] | None:
    """Parse a value of --signal such as `[R][B:]USR1@90`. Return (signal number, seconds before the time limit, True if
    only the script gets the signal). Return None if the value is invalid. The flag R (the job may overlap a
    reservation) has no effect in Phalanx."""
    found = _WARNING.fullmatch(text)
    number = number_of(found[2]) if found is not None else None
    if found is None or number is None:
        return None
    return number, int(found[3] or _BEFORE_S), "B" in (found[1] or "")
