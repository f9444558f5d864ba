"""How a shim is started: by the same Python, with nothing on its path but this package, and from the modules that are
compiled already."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = Path(__file__).parents[5]  # where the package `phalanx` lies
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from phalanx.embedded.node.container.shim.supervisor import main; main(sys.argv[2:])"
)


def shim_command(*words: str) -> tuple[str, ...]:
    """Return the command line of a shim; `words` as `supervisor.main` takes them."""
    return (sys.executable, "-I", "-S", "-c", _BOOT, str(_ROOT), *words)
