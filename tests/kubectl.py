"""The real kubectl: the one that `make setup` puts into .venv, else the machine's."""

import os
import shutil
import sys
from pathlib import Path

_FOUND = shutil.which("kubectl", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
assert _FOUND, "there is no kubectl; `make setup` installs one into .venv"
KUBECTL: str = _FOUND
