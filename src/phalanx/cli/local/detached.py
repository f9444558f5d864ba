"""Start `phalanx up` in the background, in a new session. To stop it, send a signal to the process that holds the lock
of the data directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import msgspec

from phalanx.cli.local.data_directory import DataDirectory, is_running, unwritable
from phalanx.errors import PhalanxError

LOG = "up.log"  # the output of `phalanx up --detach`
_READY = "ready\n"
_ERROR = "phalanx: error: "
_LOOK_S = 0.1


def start(directory: DataDirectory, words: Sequence[str], patience_s: float) -> str:
    """Start `phalanx WORDS` in the background, and return its output after it has printed `ready`. `patience_s`: the
    longest wait for this. Raises PhalanxError if the process ends before it is ready; the error has the error message
    or the last output line of the process."""
    log = directory.path / LOG
    try:
        directory.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritable(directory.path, error) from error
    with os.fdopen(file, "wb") as output:
        process = subprocess.Popen(
            (sys.executable, "-m", "phalanx.cli.app", *words),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline_s = time.monotonic() + patience_s
    while True:
        said = log.read_text(errors="replace")
        if _READY in said:
            return said.partition(_READY)[2].partition("\nTry, in")[0].strip("\n")
        if process.poll() is not None:
            _, _, reason = said.rpartition("\n" + _ERROR)
            last = said.strip().splitlines()[-1:] or [f"it ended with {process.returncode}"]
            raise PhalanxError(reason.strip() or last[0].removeprefix(_ERROR))
        if time.monotonic() > deadline_s:
            raise PhalanxError(f"it is not ready after {patience_s:g} s, and continues to start: see {log}.")
        time.sleep(_LOOK_S)


def stop(directory: DataDirectory, patience_s: float) -> str:
    """Stop the `phalanx up` of the directory, as Ctrl-C does, wait until it has ended, and return the last message that
    it printed. `patience_s`: the longest wait. Raises PhalanxError if no `phalanx up` runs on the directory, or if it
    does not end in time."""
    if not is_running(directory):
        raise PhalanxError(f"no `phalanx up` runs in {directory.path}: name its directory with --data DIR.")
    try:
        pid = msgspec.json.decode(directory.lock.read_bytes(), type=dict[str, int])["pid"]
        os.kill(pid, signal.SIGINT)
    except (OSError, KeyError, msgspec.DecodeError) as error:
        raise PhalanxError(f"the `phalanx up` in {directory.path} cannot be stopped: {error}.") from error
    deadline_s = time.monotonic() + patience_s
    while is_running(directory):
        if time.monotonic() > deadline_s:
            raise PhalanxError(f"process {pid} got the signal to stop, but has not ended after {patience_s:g} s.")
        time.sleep(_LOOK_S)
    log = directory.path / LOG
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return next((line for line in reversed(lines) if line.startswith("stopped")), "stopped")
