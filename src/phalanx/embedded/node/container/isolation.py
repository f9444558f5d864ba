"""Whether containers can have mounts and a host name of their own here: as root, or in a user namespace.

Tried once, when the agent starts, by what containers will do. Where neither goes, pods run all the same, without
volumes and without finding each other by name; the agent says so.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

_SHIM = Path(__file__).with_name("shim.py")
_PROBE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """`refusal`: why not; empty where it goes. `user_namespace`: only in one."""

    refusal: str = ""
    user_namespace: bool = False


def find_isolation(folder: Path) -> Isolation:
    """Try it, with a file in `folder`. Raises OSError."""
    place = folder / ".probe"
    place.touch(mode=0o600)
    try:
        argv = [sys.executable, "-I", "-S", str(_SHIM), "--probe", str(place), str(place)]
        answer = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=_PROBE_S)
        refusal = answer.stdout or (f"exit code {answer.returncode}" if answer.returncode else "")
    except subprocess.TimeoutExpired:
        refusal = "trying it took too long"
    finally:
        place.unlink(missing_ok=True)
    if refusal:
        log.warning(
            "pods cannot find each other by name here, nor mount volumes: %s. Run as root, or allow user namespaces "
            "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)",
            refusal,
        )
    return Isolation(refusal=refusal, user_namespace=os.geteuid() != 0)
