"""The peak memory of a simulation: the highest resident set of its process so far."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")
KIB = 1024


def peak_rss_bytes() -> int:
    """Return `VmHWM` of proc(5), otherwise getrusage(2). getrusage is only the second choice, because its `ru_maxrss`
    on Linux may be the parent process's. (It is in KiB, on macOS in bytes.)"""
    try:
        return int(STATUS.read_text().partition("VmHWM:")[2].split()[0]) * KIB
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * KIB
