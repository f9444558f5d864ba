"""The data directory of one `phalanx up`: its files, and the lock of the process that runs in it.

Only one `phalanx up` runs on a directory at a time. It holds a lock on `DIR/up.lock` (flock(2)). The kernel releases
the lock when the process ends for any reason, so a user never has to remove an old lock. The file contains the process
id, for error messages and for `phalanx down`.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from phalanx.errors import PhalanxError
from phalanx.ledger.entry import url_of

LOGIN_SOCKET = Path("/run/phalanx/login.sock")  # the socket at which users of a shared machine log in


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """A data directory, with the paths of its files. The file `kubeconfig` exists after the first start of the API
    server on this directory."""

    path: Path

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def control_plane_kubeconfig(self) -> Path:
        """Return the kubeconfig of the control plane, which has its own user at the API server."""
        return self.path / "control-plane.kubeconfig"

    @property
    def tokens(self) -> Path:
        """Return the token file of the API server."""
        return self.path / "tokens.csv"

    @property
    def authority(self) -> Path:
        """Return the certificate authority with which clients verify the API server."""
        return self.path / "pki" / "ca.crt"

    @property
    def lock(self) -> Path:
        return self.path / "up.lock"

    @property
    def ledger(self) -> Path:
        """Return the database of the ledger, which has every job that ran (`phalanx history`)."""
        return self.path / "ledger.sqlite3"

    @property
    def ledger_url(self) -> str:
        """Return the URL of this database."""
        return url_of(self.ledger)

    @property
    def views(self) -> Path:
        """Return the folder of the socket on which the scheduler serves requests that the API server forwards."""
        return self.path / "views"

    def log(self, program: str) -> Path:
        return self.path / f"{program}.log"


def default_directory(environment: Mapping[str, str]) -> DataDirectory:
    """Return `$XDG_DATA_HOME/phalanx` if the variable is set (XDG Base Directory Specification), or else
    `~/.phalanx`."""
    if (data_home := environment.get("XDG_DATA_HOME", "")) and Path(data_home).is_absolute():
        return DataDirectory(Path(data_home) / "phalanx")
    return DataDirectory(Path(environment.get("HOME") or os.path.expanduser("~")) / ".phalanx")


def chosen_directory(given: Path | None, environment: Mapping[str, str]) -> DataDirectory:
    """Return the directory that `--data` names, or the default."""
    return default_directory(environment) if given is None else DataDirectory(given.expanduser().resolve())


@contextmanager
def owned(directory: DataDirectory, port: int) -> Iterator[None]:
    """Create the directory if it is missing, and hold its lock while the context is open. `port`: the port of the API
    server, for error messages. Raises PhalanxError if the directory cannot be created or written, if the disk is full,
    or if another `phalanx up` holds the lock."""
    try:
        directory.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        # a user or an earlier version has created the directory with another mode; it contains secrets
        if directory.path.stat().st_mode & 0o077:
            directory.path.chmod(0o700)
        file = os.open(directory.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritable(directory.path, error) from error
    try:
        _take(file, directory)
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, msgspec.json.encode({"pid": os.getpid(), "port": port}), 0)
            os.fsync(file)
        except OSError as error:
            raise unwritable(directory.path, error) from error
        yield
    finally:
        os.close(file)


def is_running(directory: DataDirectory) -> bool:
    """Return True if a `phalanx up` runs on the directory now."""
    try:
        file = os.open(directory.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _take(file: int, directory: DataDirectory) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _holder(os.pread(file, 4096, 0))
        raise PhalanxError(
            f"{directory.path} is in use by another `phalanx up`{holder}. Two of them would overwrite each other's "
            "objects, so "
            f"this one did not start. Use the running one (export KUBECONFIG={directory.kubeconfig}), stop it with "
            "Ctrl-C, or start this one with --data OTHER-DIRECTORY --port OTHER-PORT."
        ) from error


def _holder(content: bytes) -> str:
    try:
        said = msgspec.json.decode(content, type=dict[str, int])
        return f" (process {said['pid']}, port {said['port']})"
    except (msgspec.DecodeError, KeyError):  # the process with the lock has not written the file yet
        return ""


def unwritable(path: Path, error: OSError) -> PhalanxError:
    """Return the error for a failed write in the data directory `path`, with the cause and a solution."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            cure = "The disk is full; free some space on it, or use --data with a directory on another disk"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            cure = "Use --data with a directory in which you may write"
        case _:
            cure = "Use --data with a directory that can be created and written"
    return PhalanxError(f"cannot write the data directory {path}: {error.strerror}. Nothing was started. {cure}.")
