"""What an example needs of this machine: programs, and packages in a virtual environment of its own under out/.

What cannot be had is told as `Missing`, which is not a failure of the example: `run` then ends with `MISSING`, so that
whoever runs many of them (the tests do) tells "cannot run here" from "went wrong".

Two may install the same at once (somebody tries an example while the tests run): one does, under a lock, the other
waits and finds it done. Only `.ready` counts, so what was cut off in the middle is begun anew. Importing what was
installed proves it, and compiles what the pods would otherwise each compile for themselves; pip compiles everything,
which is two thirds of the processor time that installing torch takes, so it is told not to.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
VENVS = ROOT / "out" / "examples"
MISSING = 3  # exit code of `run`
_LOOK_S = 0.2


class ExampleError(Exception):
    """It did not end as it should; the text says how."""


class Missing(ExampleError):
    """It cannot run on this machine; the text says what it lacks and how to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`version` must be found in what it says when it is run with `ask`; `hint` is how to get one."""

    name: str
    ask: str
    version: str
    hint: str

    def require(self) -> None:
        """Raises Missing."""
        done = subprocess.run(
            [program(self.name, self.hint), self.ask],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        said = done.stdout + done.stderr
        if re.search(self.version, said) is None:
            raise Missing(f"{self.name} here is another ({' '.join(said.split()[:6])}): {self.hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """What pods need, as pip names it. `size` tells the user what it costs, `room_bytes` is what it takes at most while
    it is installed, `proof` is what then can be imported."""

    name: str
    requirements: tuple[str, ...]
    size: str
    room_bytes: int
    proof: str
    options: tuple[str, ...] = ()  # of pip

    @property
    def folder(self) -> Path:
        return VENVS / self.name

    @property
    def installed(self) -> bool:
        return (self.folder / ".ready").exists()

    def install(self, limit_s: float) -> None:
        """Within `limit_s` seconds, waiting for another who installs the same included. Raises Missing."""
        deadline_s = time.monotonic() + limit_s
        if self.installed:
            return
        VENVS.mkdir(parents=True, exist_ok=True)
        with _locked(VENVS / f"{self.name}.lock", deadline_s):
            if self.installed:
                return
            _require_room(self.room_bytes, self.size)
            print(f"installing {', '.join(self.requirements)} into {self.folder} ({self.size}; once)", flush=True)
            shutil.rmtree(self.folder, ignore_errors=True)
            for what, command in self._steps():
                _call(what, command, deadline_s)
            (self.folder / ".ready").touch()

    def _steps(self) -> list[tuple[str, list[str]]]:
        """What each does, and the command. One Python makes the virtual environment, and its pip fills it: a pip of its
        own would take as long again as the small packages do."""
        ours, folder, wanted = str(python()), str(self.folder), list(self.requirements)
        pip = [ours, "-m", "pip", "--python", folder, "install", "--quiet", "--no-compile", *self.options]
        return [
            ("making a virtual environment", [ours, "-m", "venv", "--without-pip", folder]),
            (f"pip install {' '.join(wanted)} (from the network)", [*pip, *wanted]),
            (f"import {self.proof}", [str(self.folder / "bin" / "python"), "-c", f"import {self.proof}"]),
        ]


def program(name: str, hint: str) -> str:
    """Where it is. Raises Missing."""
    places = [str(Path(sys.executable).parent), str(ROOT / ".venv" / "bin"), os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise Missing(f"there is no {name}: {hint}")
    return found


def python() -> Path:
    """The project's own, where there is one."""
    ours = ROOT / ".venv" / "bin" / "python"
    return ours if ours.exists() else Path(sys.executable)


@contextmanager
def _locked(path: Path, deadline_s: float) -> Iterator[None]:
    """Raises Missing when another has it for too long. A lock ends with its process, however that ends."""
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise Missing(f"another process installs it and is not ready yet (lock: {path})") from None
                time.sleep(_LOOK_S)
        yield


def _require_room(room_bytes: int, size: str) -> None:
    """Where it is unpacked, and where it is going to be. Raises Missing."""
    for place in (VENVS, Path(tempfile.gettempdir())):
        free_bytes = shutil.disk_usage(place).free
        if free_bytes < room_bytes:
            raise Missing(
                f"too little room in {place} for packages of {size}: {room_bytes / 1e9:.1f} GB are needed while they "
                f"are installed, {free_bytes / 1e9:.1f} GB are free"
            )


def _call(what: str, command: Sequence[str], deadline_s: float) -> None:
    """With all that it starts, it ends when we do: too late, or by Ctrl-C. Raises Missing."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=max(deadline_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Missing(f"{what} took too long") from None
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        last = said.strip().splitlines()[-3:]
        raise Missing(f"{what} failed:\n" + "\n".join(last))
