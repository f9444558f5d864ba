"""`phalanx cp`: copy files from and to a pod of a running job, with tar(1) in its container."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Annotated

from cyclopts import Parameter

from phalanx.cli.cluster.jobs.streaming import Exec
from phalanx.cli.cluster.target import Namespace, Target, connected
from phalanx.cli.commands.inside.place import container_of, running_pod
from phalanx.client.connection import Connection, Object
from phalanx.errors import PhalanxError

_PIECE_BYTES = 1 << 16
# `head` ends the input of tar after "$1" bytes, because the connection cannot signal the end of the input. "$2" is the
# folder into which tar writes.
_UNPACK = 'mkdir -p "$2" && head -c "$1" | tar xf - -C "$2"'
_PACK = 'cd "$1" && tar cf - -- "$2"'


@dataclass(frozen=True, slots=True)
class _Inside:
    """A path in a pod of a job. `job`: the name of the job or the pod."""

    job: str
    path: PurePosixPath


async def cp(
    source: str,
    destination: str,
    /,
    *,
    container: Annotated[str, Parameter(alias="-c")] = "",
    space: Namespace | None = None,
    target: Target | None = None,
) -> None:
    """Copy files and folders from a pod of a job to this machine, or from this machine to the pod. The container needs
    tar and sh. If the destination is a folder or ends with a slash, the source is copied into it.

    For example:

        phalanx cp train:/results/model.pt .
        phalanx cp train/3:/var/log/train ./logs/
        phalanx cp config.yaml train:/etc/train/

    Parameters
    ----------
    source
        A path on this machine, or JOB:PATH for a path in the first pod of the job; JOB/INDEX:PATH chooses another pod.
    destination
        The path of the copy, in the same form. One of the two paths must be on this machine.
    container
        The container. [default: the container that kubectl chooses: the annotated one, else the first]
    """
    away, there = _inside(source), _inside(destination)
    if (away is None) == (there is None):
        raise PhalanxError("one path must be on this machine, and the other one must be JOB:PATH. Nothing was copied.")
    inside = away or there
    assert inside is not None
    namespace = (space or Namespace()).namespace
    async with connected(target) as connection, running_pod(connection, inside.job, namespace, target) as (link, pod):
        name = container_of(pod, container)
        if away is not None:
            await _fetch(link, pod, name, away.path, Path(destination), into=destination.endswith("/"))
        else:
            await _send(link, pod, name, Path(source), inside.path, into=destination.endswith("/"))


def _inside(text: str) -> _Inside | None:
    """Parse JOB:PATH or `pod:NAME:PATH`. Return None for a path on this machine."""
    if text.startswith((".", "/")) or ":" not in text:
        return None
    job, _, path = text.rpartition(":")
    if not path:
        raise PhalanxError(f"{text!r} names no path: write for example {text}/results. Nothing was copied.")
    return _Inside(job, PurePosixPath(path))


async def _fetch(
    connection: Connection, pod: Object, container: str, source: PurePosixPath, destination: Path, *, into: bool
) -> None:
    folder = destination if into or destination.is_dir() else destination.parent  # noqa: ASYNC240 (one fast check)
    name = None if folder is destination else destination.name
    command = ("sh", "-c", _PACK, "sh", str(source.parent), source.name or ".")
    with tempfile.TemporaryFile() as archive:
        errors = bytearray()
        async with Exec(connection, pod, container, command, tty=False, stdin=False) as session:
            code = await session.run(lambda data: _append(archive, data), errors.extend)
        _require(code, errors, f"{pod['metadata']['name']}:{source}")
        archive.seek(0)
        folder.mkdir(parents=True, exist_ok=True)
        _extract(archive, folder, source.name, name or source.name)


def _append(file: IO[bytes], data: bytes) -> None:
    file.write(data)


def _extract(archive: IO[bytes], folder: Path, old: str, new: str) -> None:
    """Unpack the archive into the folder; entries outside of the folder are refused. In all paths, the first part `old`
    is replaced by `new`."""
    try:
        with tarfile.open(fileobj=archive) as found:
            for member in found:
                if member.name == old or member.name.startswith(f"{old}/"):
                    member.name = new + member.name[len(old) :]
                found.extract(member, folder, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise PhalanxError(f"the copied files cannot be written into {folder}: {error}") from error


async def _send(
    connection: Connection, pod: Object, container: str, source: Path, destination: PurePosixPath, *, into: bool
) -> None:
    folder, name = await _place(connection, pod, container, destination, source.name, into=into)
    with tempfile.TemporaryFile() as archive:
        try:
            with tarfile.open(fileobj=archive, mode="w") as made:
                made.add(source, arcname=name)
        except OSError as error:
            raise PhalanxError(f"{source} cannot be read: {error.strerror or error}. Nothing was copied.") from error
        size = archive.tell()
        archive.seek(0)
        errors = bytearray()
        command = ("sh", "-c", _UNPACK, "sh", str(size), str(folder))
        async with Exec(connection, pod, container, command, tty=False, stdin=True) as session:
            while piece := archive.read(_PIECE_BYTES):
                await session.write(piece)
            code = await session.run(lambda data: None, errors.extend)
        _require(code, errors, f"{pod['metadata']['name']}:{destination}")


async def _place(
    connection: Connection, pod: Object, container: str, destination: PurePosixPath, name: str, *, into: bool
) -> tuple[PurePosixPath, str]:
    """Return the destination in the container as a folder and a name in this folder. `into`: True if the user's
    destination ends with a slash."""
    command = ("test", "-d", str(destination))
    async with Exec(connection, pod, container, command, tty=False, stdin=False) as session:
        is_folder = await session.run(lambda data: None, lambda data: None) == 0
    if into or is_folder:
        return destination, name
    return destination.parent, destination.name


def _require(code: int, errors: bytearray, what: str) -> None:
    """Raise PhalanxError if tar failed; print tar's other messages to standard error."""
    said = errors.decode(errors="replace").strip()
    if code:
        raise PhalanxError(f"{what}: {said or f'tar ended with {code}'}")
    if said:
        print(said, file=sys.stderr)
