"""Run the Slurm command whose name is the name of the started program. `phalanx slurm install` creates a program for
each command.

Each command imports only the modules that it needs, because it must start within milliseconds.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

FOLDERS = {
    "launch": ("sbatch", "srun", "salloc"),
    "jobs": ("squeue", "scancel", "sprio", "sstat"),
    "cluster": ("sdiag", "sinfo", "scontrol"),
    "accounting": ("sacct", "sacctmgr", "sreport", "sshare"),
}
COMMANDS = {name: folder for folder, names in FOLDERS.items() for name in names}
SOCKET_NAME = "slurm-commands.sock"  # the name of the service's socket in the directory of the kubeconfig
VERSION = "slurm-wlm 22.05.8 (Phalanx)"


def main(name: str | None = None) -> int:
    """Run the command `name`, by default the command with the name of the running program. Return its exit code."""
    name = name or Path(sys.argv[0]).name
    words = sys.argv[1:]
    if name not in COMMANDS:
        sys.stderr.write(f"{name} is not a Slurm command of Phalanx. Phalanx has: {', '.join(COMMANDS)}\n")
        return 2
    if words and words[0] in ("-V", "--version"):
        print(VERSION)
        return 0
    _import_msgspec()
    from phalanx.errors import PhalanxError
    from phalanx.slurm.options import Usage

    # A command keeps all of its objects until it ends, even ten thousand jobs. So the garbage collector would find no
    # garbage.
    gc.set_threshold(1_000_000)

    try:
        status: int = import_module(f"phalanx.slurm.commands.{COMMANDS[name]}.{name}").run(words)
        sys.stdout.flush()
        return status
    except Usage as error:
        if error.text:
            sys.stderr.write(error.text + "\n")
        return error.status
    except PhalanxError as error:
        sys.stderr.write(f"{name}: error: {error}\n")
        return 1
    except UnicodeEncodeError as error:  # Kubernetes' JSON has no other texts
        text = error.object.encode(errors="surrogateescape")[:60]
        sys.stderr.write(f"{name}: error: the text {text!r} is not UTF-8\n")
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions. msgspec needs two names from typing_extensions; from Python 3.11 on,
    `typing` has these names. The import of typing_extensions and `inspect` takes a fifth of the time of a short
    command. Other modules may import typing_extensions later."""
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # makes the import fail
        try:
            import_module("msgspec")
        finally:
            del sys.modules["typing_extensions"]


def leave(name: str) -> NoReturn:
    """End this process with the command's exit code. Skip the interpreter's clean-up, which takes a seventh of the time
    of a short command. If other threads still run, exit in the usual way, so that the interpreter waits for them."""
    status = main(name)
    if "threading" in sys.modules and sys.modules["threading"].active_count() > 1:
        sys.exit(status)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def serve(path: str) -> None:
    """Serve Slurm's commands at the Unix socket `path` until SIGTERM. Print the line `ready` when the socket exists."""
    _import_msgspec()
    from phalanx.errors import PhalanxError
    from phalanx.slurm.commands.resident import service

    def ready() -> None:
        print("ready", flush=True)

    modules = [f"phalanx.slurm.commands.{folder}.{name}" for name, folder in COMMANDS.items()]
    try:
        service.serve(Path(path), modules, COMMANDS, main, ready)
    except PhalanxError as error:
        sys.stderr.write(f"phalanx slurm serve: {error}\n")
        sys.exit(1)


def service_command(path: Path) -> tuple[str, ...]:
    """Return the command line that starts the service at the Unix socket `path`. Python runs isolated (-I), so it
    imports nothing from the directory in which the service is started."""
    return (
        sys.executable,
        "-I",
        "-c",
        "import sys; from phalanx.slurm.main import serve; serve(sys.argv[1])",
        str(path),
    )


_CALL = "from phalanx.slurm.main import leave\n"
# The programs start Python without the module `site`, because the import of `site` takes longer than a call to the
# service.
_BY_SERVICE = """import sys
sys.path.insert(0, {folder!r})
from caller import call
call({name!r})
del sys.path[0]
import site
site.main()
"""
_PATH_BYTES = 4096  # the longest path of an interpreter or a folder in a program


def install(directory: Path) -> list[Path]:
    """Create a program for each command in a directory, and return their paths. The programs run the same installation
    of Phalanx as this process. If there is a C compiler, compile the client of the service (the caller), because the
    compiled caller starts faster than Python. Raises OSError. Raises PhalanxError if the directory has a file with the
    name of a command that this function did not create."""
    from phalanx.errors import PhalanxError
    from phalanx.slurm.commands.resident.compiled import compile_caller

    directory.mkdir(parents=True, exist_ok=True)
    places = [directory / name for name in COMMANDS]
    for place in places:
        if (place.is_symlink() or place.exists()) and not _is_ours(place):
            raise PhalanxError(
                f"{place} exists, and this command did not create it. It may belong to a real Slurm. Nothing was "
                "changed. Name another directory, and put it first on the PATH."
            )
    made, compiled = [], compile_caller(directory)
    for place in places:
        name = place.name
        part = directory / f".{name}.{os.getpid()}"
        part.write_text(_program(name, compiled))
        part.chmod(0o755)
        part.replace(place)
        made.append(place)
    return made


def _program(name: str, compiled: Path | None) -> str:
    """Return the text of the program of the command `name`. `compiled`: the path of the compiled program that
    passes a command to the resident process; None if there is no compiler."""
    from phalanx.slurm.commands.resident import caller
    from phalanx.slurm.commands.resident.service import NOT_SERVED

    if name in NOT_SERVED:
        return f"#!{sys.executable} -I\n{_CALL}leave({name!r})\n"
    first = _BY_SERVICE.format(folder=str(Path(caller.__file__).parent), name=name)
    interpreter = f"{sys.executable} -IS" if compiled is None else f"{compiled} {name}"
    return f"#!{interpreter}\n{first}{_CALL}leave({name!r})\n"


def _is_ours(place: Path) -> bool:
    """Return whether an earlier `install` created the file."""
    if place.is_symlink() or not place.is_file():
        return False
    with place.open("rb") as file:
        return _CALL.encode() in file.read(2 * _PATH_BYTES + len(_BY_SERVICE + _CALL))


if __name__ == "__main__":
    sys.exit(main())
