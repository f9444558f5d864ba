"""How a shim is started: by the same Python, with nothing on its path but this package, and from the modules that are
compiled already.

A shim enters containers, and forks into what becomes one. There a program of an image can have itself run as
/proc/self/exe, which is the interpreter, a file of the machine, with whatever libraries the image has: as its owner it
may change that file, or its mode (CVE-2019-5736 of runc). So what is run is a copy in memory that nothing can write
(memfd_create(2), F_ADD_SEALS), one for all shims of this process. It lives as long as any of them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[5]  # where the package `phalanx` lies
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from phalanx.embedded.node.container.shim.supervisor import main; main(sys.argv[2:])"
)
_BARE = ("-I", "-S", "-c")
_NAME, _MFD_EXEC, _TRIAL_S = "phalanx-python", 0x10, 10.0
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def shim_command(*words: str) -> tuple[str, ...]:
    """Return the command line of a shim, which `interpreter` runs; `words` as `supervisor.main` takes them."""
    return (sys.executable, *_BARE, _BOOT, str(_ROOT), *words)


def interpreter() -> str:
    """Return the path of what runs shims."""
    return _copied()[0]


def sealing_refusal() -> str:
    """Return why that is the machine's own file; "": it is not."""
    return _copied()[1]


@cache
def _copied() -> tuple[str, str]:
    try:
        path = f"/proc/{os.getpid()}/fd/{_copy()}"
        subprocess.run((sys.executable, *_BARE, ""), executable=path, check=True, timeout=_TRIAL_S)
    except (OSError, subprocess.SubprocessError) as error:
        return sys.executable, f"{sys.executable} does not run from a sealed copy in memory: {error}"
    return path, ""


def _copy() -> int:
    """Return a handle on the copy, which stays open. Raises OSError."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        copy = os.memfd_create(_NAME, flags | _MFD_EXEC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        copy = os.memfd_create(_NAME, flags)  # before Linux 6.3, where all can be run
    with open(sys.executable, "rb") as source:
        while os.sendfile(copy, source.fileno(), None, 1 << 24):
            pass
    os.fchmod(copy, 0o555)
    fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SEALS)
    return copy
