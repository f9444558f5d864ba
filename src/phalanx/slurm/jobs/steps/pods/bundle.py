"""Copy Slurm's commands, the step daemon and a Python interpreter into one directory. The programs in this directory
need no file outside of it.

An init container with the image of Phalanx creates this directory in a volume that it shares with the container of the
job. So a job has `srun` even if the image of the job has no Python or another C library. The interpreter is started by
the loader in the directory, with copies of the shared libraries that this process uses.

    DIRECTORY/bin     the commands, for the PATH of the script
    DIRECTORY/python  the interpreter, for the launcher
    DIRECTORY/home    the program and the modules of the interpreter
    DIRECTORY/lib     the loader and the shared libraries of the interpreter
    DIRECTORY/.phalanx-bundle  this empty file shows that Phalanx created the files, so a later run may replace them
"""

from __future__ import annotations

import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from phalanx.errors import PhalanxError

_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGES = ("msgspec", "httptools", "yaml", "phalanx/client", "phalanx/slurm")
# Modules to import before the copy. The import maps their shared libraries into this process, and all mapped libraries
# are copied.
_LOADED = ("ssl", "hashlib", "ctypes", *(name for name in _PACKAGES if "/" not in name))
_PARTS, _OURS = ("bin", "home", "lib", "python"), ".phalanx-bundle"
_UNUSED = ("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages", "config-*")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.a", *_UNUSED)


def bundle(where: Path, commands: Iterable[str]) -> None:
    """Create the bundle in the directory `where`. The programs of the bundle only work under this path. Files of an
    earlier bundle are replaced. `commands`: the names of the commands. Raises OSError. Raises PhalanxError if the
    directory has files that no earlier bundle created."""
    try:
        _make(where, commands)
    except shutil.Error as error:  # the error lists each file that was not copied; only the first one is reported
        raise OSError(str(error.args[0][0][2])) from None


def _make(where: Path, commands: Iterable[str]) -> None:
    _make_room(where)
    for name in _LOADED:
        import_module(name)
    loader = _libraries(Path("/proc/self/maps").read_text().splitlines(), where / "lib")
    home, modules = where / "home", where / "home" / "lib" / _VERSION
    (home / "bin").mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), home / "bin" / _VERSION)
    shutil.copytree(sysconfig.get_path("stdlib"), modules, ignore=_LEFT_OUT)
    # The packages are copied into the standard library's folder, because Debian's Python does not search site-packages.
    _packages(modules)
    python = shlex.join((f"{where}/lib/{loader}", "--library-path", f"{where}/lib", f"{home}/bin/{_VERSION}"))
    _program(where / "python", f'#!/bin/sh\nexec {python} "$@"\n')
    # The commands start further programs, which must use the same interpreter.
    own = f"import sys\nsys.executable = {str(where / 'python')!r}\n"
    for name in commands:
        _program(home / "commands" / name, f"{own}from phalanx.slurm.main import leave\nleave({name!r})\n")
        _program(where / "bin" / name, f'#!/bin/sh\nexec {python} -I {shlex.quote(f"{home}/commands/{name}")} "$@"\n')


def _make_room(where: Path) -> None:
    """Remove the files of an earlier bundle. Raises PhalanxError if `bin`, `lib` or another path of the bundle exists
    and was not created by an earlier bundle, because such a file belongs to a user or to the machine."""
    if any(sign in str(where) for sign in ":;\n"):
        raise PhalanxError(
            f"{str(where)!r}: the loader splits paths at the characters : and ;. Name another directory."
        )
    there = [part for part in (where / part for part in _PARTS) if part.is_symlink() or part.exists()]
    if there and not (where / _OURS).is_file():
        raise PhalanxError(
            f"{there[0]} exists, and no earlier bundle created it: there is no file {where / _OURS}. "
            "Nothing was changed. Name an empty directory."
        )
    where.mkdir(parents=True, exist_ok=True)
    (where / _OURS).touch()  # created first, so that a later run recognizes the files of an interrupted run
    for part in there:
        if part.is_symlink() or part.is_file():
            part.unlink()
        else:
            shutil.rmtree(part)


def _libraries(maps: Iterable[str], where: Path) -> str:
    """Copy the shared libraries of a process that are not Python modules, and return the file name of the loader.
    `maps`: the lines of /proc/PID/maps (proc(5)). `where`: the target folder."""
    where.mkdir(parents=True)
    loader = ""
    for path in sorted({Path(line.split(maxsplit=5)[5].strip()) for line in maps if line.count("/") > 1}):
        if ".so" not in path.name or ".cpython-" in path.name or not path.exists():
            continue
        shutil.copy(path, where / path.name)
        # Copy the symbolic links, too, because programs load a library by the name of a link.
        for alias in path.parent.glob(f"{path.name.partition('.so')[0]}.so*"):
            if alias.is_symlink() and alias.resolve() == path.resolve() and alias.name != path.name:
                (where / alias.name).symlink_to(path.name)
        if path.name.startswith("ld-"):
            loader = path.name
    if not loader:
        raise OSError("the interpreter is not linked with shared libraries")
    return loader


def _packages(where: Path) -> None:
    for name in _PACKAGES:
        package = import_module(name.replace("/", "."))
        shutil.copytree(str(package.__path__[0]), where / name, ignore=_LEFT_OUT)
    root = Path(str(import_module("phalanx").__path__[0]))
    for file in ("__init__.py", "errors.py"):
        shutil.copy(root / file, where / "phalanx" / file)


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
