"""Put Slurm's commands and the step daemon into one directory, with an interpreter that depends on nothing outside of
it.

An init container with the image of Phalanx creates it in a volume that it shares with the job's container. So images
without Python, or with another C library, have `srun`. The interpreter is started by its own loader, with the libraries
that this process has mapped.

    DIRECTORY/bin     the commands, for the PATH of the script
    DIRECTORY/python  the interpreter, for the launcher
    DIRECTORY/home    its program and modules
    DIRECTORY/lib     its loader and libraries
    DIRECTORY/.phalanx-bundle  marks these files as Phalanx's, so that a later run may replace them
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
# Modules that are imported first, so that their shared libraries are mapped and copied too.
_LOADED = ("ssl", "hashlib", "ctypes", *(name for name in _PACKAGES if "/" not in name))
_PARTS, _OURS = ("bin", "home", "lib", "python"), ".phalanx-bundle"
_UNUSED = ("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages", "config-*")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.a", *_UNUSED)


def bundle(where: Path, commands: Iterable[str]) -> None:
    """Create the bundle at `where`, the path under which its programs will run. The files of an earlier run are
    removed. Raises OSError, and PhalanxError if the directory contains other files."""
    try:
        _make(where, commands)
    except shutil.Error as error:  # it lists all files that could not be copied, thousands if the disk is full
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
    _packages(
        modules
    )  # beside the standard library, which is on every path: Debian's Python looks for no site-packages
    python = shlex.join((f"{where}/lib/{loader}", "--library-path", f"{where}/lib", f"{home}/bin/{_VERSION}"))
    _program(where / "python", f'#!/bin/sh\nexec {python} "$@"\n')
    # Programs that these start must use the same interpreter.
    own = f"import sys\nsys.executable = {str(where / 'python')!r}\n"
    for name in commands:
        _program(home / "commands" / name, f"{own}from phalanx.slurm.main import leave\nleave({name!r})\n")
        _program(where / "bin" / name, f'#!/bin/sh\nexec {python} -I {shlex.quote(f"{home}/commands/{name}")} "$@"\n')


def _make_room(where: Path) -> None:
    """Remove the files of an earlier run. Other folders named `bin` or `lib` stay, because they belong to a user or to
    the machine."""
    if any(sign in str(where) for sign in ":;\n"):
        raise PhalanxError(f"{str(where)!r}: the loader divides its paths at : and ;. Name another directory.")
    there = [part for part in (where / part for part in _PARTS) if part.is_symlink() or part.exists()]
    if there and not (where / _OURS).is_file():
        raise PhalanxError(
            f"{there[0]} is there, and no earlier bundle made it ({where / _OURS} would say so). "
            "Nothing was changed. Name an empty directory."
        )
    where.mkdir(parents=True, exist_ok=True)
    (where / _OURS).touch()  # first, so that an interrupted run is recognized
    for part in there:
        if part.is_symlink() or part.is_file():
            part.unlink()
        else:
            shutil.rmtree(part)


def _libraries(maps: Iterable[str], where: Path) -> str:
    """Copy the shared libraries of a process (proc(5)) that are not modules of Python's; return its loader's name."""
    where.mkdir(parents=True)
    loader = ""
    for path in sorted({Path(line.split(maxsplit=5)[5].strip()) for line in maps if line.count("/") > 1}):
        if ".so" not in path.name or ".cpython-" in path.name or not path.exists():
            continue
        shutil.copy(path, where / path.name)
        for alias in path.parent.glob(f"{path.name.partition('.so')[0]}.so*"):  # the names by which programs load it
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
