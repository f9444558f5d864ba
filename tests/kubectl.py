"""The real kubectl: the one in .venv from `make setup`, or else the machine's; and other installed versions."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

_FOUND = shutil.which("kubectl", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
assert _FOUND, "there is no kubectl; `make setup` installs one into .venv"
KUBECTL: str = _FOUND


@cache
def versions() -> dict[str, str]:
    """Return minor version -> program: those named in PHALANX_KUBECTLS (separated by colons), and those on the PATH
    with their neighbours of names like kubectl.1.32."""
    found: dict[str, str] = {}
    places = [Path(one) for one in os.environ.get("PHALANX_KUBECTLS", "").split(os.pathsep) if one]
    machine = shutil.which("kubectl")
    places += [*Path(machine).resolve().parent.glob("kubectl*"), Path(machine)] if machine else []
    for place in (*places, Path(KUBECTL)):
        said = subprocess.run([place, "version", "--client"], capture_output=True, text=True, check=False).stdout
        if number := re.search(r"v(1\.\d+)\.", said):
            found.setdefault(number[1], str(place))
    return found
