"""Read the script of a batch job, check it as sbatch does, and split its #SBATCH lines into words."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from phalanx.slurm.options import Usage

_MOST_BYTES = 120_000  # the script is passed to the pod in an environment variable, which cannot be longer
_NO_SCRIPT = (
    "sbatch: error: This does not look like a batch script.  The first\n"
    "sbatch: error: line must start with #! followed by the path to an interpreter.\n"
    "sbatch: error: For instance: #!/bin/sh"
)


def wrapped(command: str) -> str:
    """Return the script that sbatch --wrap creates for a command."""
    return f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n"


def read_script(name: str | None) -> str:
    """Return the text of the script in the file `name`; None: from standard input. Raises Usage, with sbatch's
    message."""
    try:
        content = sys.stdin.buffer.read(_MOST_BYTES + 1) if name is None else _file(name)
    except OSError:
        raise Usage(f"sbatch: error: Unable to open file {_shown(name)}") from None
    if not content:
        raise Usage("sbatch: error: Batch script is empty!")
    if not content.strip(b" \t\r\n\0"):
        raise Usage("sbatch: error: Batch script contains only whitespace!")
    if not content.startswith(b"#!"):
        raise Usage(_NO_SCRIPT)
    if b"\0" in content:
        raise Usage(
            "sbatch: error: The Slurm controller does not allow scripts that\n"
            "sbatch: error: contain a NULL character '\\0'."
        )
    if b"\r\n" in content:
        raise Usage(
            "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n"
            "sbatch: error: instead of expected UNIX line breaks (\\n)."
        )
    if len(content) > _MOST_BYTES:
        raise Usage(
            f"sbatch: error: the script has more than {_MOST_BYTES} bytes, which Phalanx does not support: let a short "
            "script call the longer program by its path"
        )
    return content.decode(errors="surrogateescape")


def find(name: str, directory: Path) -> str:
    """Return the path of the script. As in sbatch, a name without a slash is searched in the directory, and then in
    PATH."""
    if "/" in name or (directory / name).is_file():
        return str(directory / name)
    for folder in os.environ.get("PATH", "").split(":"):
        if folder and os.access(place := Path(folder) / name, os.R_OK | os.X_OK) and place.is_file():
            return str(place)
    return name


def _file(name: str) -> bytes:
    if Path(name).is_dir():
        return b""
    with Path(name).open("rb") as file:
        return file.read(_MOST_BYTES + 1)


def _shown(name: str | None) -> str:
    return "standard input" if name is None else name if not Path(name).exists() else str(Path(name))


def lines(text: str) -> Iterator[list[str]]:
    """Yield the words of each #SBATCH line that comes before the first command of the script."""
    for line in text.split("\n")[1:]:
        bare = line.strip()
        if line.startswith("#SBATCH") and (line[7:8] in (" ", "\t", "")):
            yield _words(line[7:])
        elif bare and not bare.startswith("#"):
            return


def foreign(text: str) -> dict[str, str | None]:
    """Return the sbatch options for the #PBS and #BSUB lines of a script. Slurm translates the same lines."""
    found: dict[str, str | None] = {}
    for line in text.split("\n")[1:]:
        bare = line.strip()
        if bare and not bare.startswith("#"):
            break
        for mark, read in (("#PBS", _pbs), ("#BSUB", _bsub)):
            if line.startswith(mark) and line[len(mark) : len(mark) + 1] in (" ", "\t"):
                words = _words(line[len(mark) :])
                while words:
                    found |= read(words.pop(0), words)
    return found


_PBS = {"-A": "account", "-e": "error", "-J": "array", "-M": "mail-user", "-N": "job-name", "-o": "output",
        "-q": "partition", "-t": "array", "-a": "begin"}  # fmt: skip
_PBS_TAKING = ("-c", "-C", "-j", "-k", "-p", "-P", "-r", "-S", "-u", "-v", "-w")  # have a value, and no effect
_BSUB = {"-cwd": "chdir", "-e": "error", "-i": "input", "-J": "job-name", "-M": "mem-per-cpu", "-m": "nodelist",
         "-n": "ntasks", "-o": "output", "-q": "partition", "-W": "time", "-b": "begin"}  # fmt: skip


def _pbs(option: str, rest: list[str]) -> dict[str, str | None]:
    if option == "-l" and rest:
        return dict(_pbs_resources(rest.pop(0)))
    if option == "-m" and rest:
        kinds = {"a": "FAIL", "b": "BEGIN", "e": "END"}
        named = [kinds[letter] for letter in rest.pop(0) if letter in kinds]
        return {"mail-type": ",".join(named)} if named else {}
    if option == "-h":
        return {"hold": None}
    if option == "-W" and rest:
        name, _, value = rest.pop(0).partition("=")
        return {"dependency": value} if name == "depend" else {}
    if option in _PBS and rest:
        return {_PBS[option]: rest.pop(0)}
    if option in _PBS_TAKING and rest:
        rest.pop(0)
    return {}


def _pbs_resources(text: str) -> Iterator[tuple[str, str]]:
    """Yield the sbatch options for a resource list of PBS, such as `nodes=2:ppn=4,walltime=1:00:00,mem=4gb`."""
    for part in text.split(","):
        name, _, value = part.partition("=")
        match name:
            case "nodes" | "select":
                count, *more = value.split(":")
                yield "nodes", count
                for word in more:
                    key, _, number = word.partition("=")
                    if key in ("ppn", "mpiprocs", "ncpus"):
                        yield "ntasks-per-node", number
            case "walltime" | "cput":
                yield "time", value
            case "mem":
                yield "mem", value
            case "pmem":
                yield "mem-per-cpu", value
            case "ncpus":
                yield "mincpus", value


def _bsub(option: str, rest: list[str]) -> dict[str, str | None]:
    if option == "-x":
        return {"exclusive": None}
    if option in _BSUB and rest:
        value = rest.pop(0)
        return {_BSUB[option]: f"{value}:00" if option == "-W" and ":" in value else value}
    return {}


def _words(text: str) -> list[str]:
    """Split the text into words as a shell does, up to a comment."""
    reader = shlex.shlex(text, posix=True)
    reader.whitespace_split, reader.commenters = True, "#"
    try:
        return list(reader)
    except ValueError:
        raise Usage(f"sbatch: error: Missing quotation mark in #SBATCH line:{text}") from None
