"""Compile `caller.c` if the machine has a C compiler. The compiled caller starts faster than Python.

`phalanx slurm install` calls this module. The compiled program is in the directory of the installed commands, and the
kernel runs it as their interpreter (`#!PROGRAM squeue`). Each installed command is also a valid Python program. Python
runs it if there is no compiler, or if no service accepts the call.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from phalanx.slurm.commands.resident import caller

NAME = ".phalanx-slurm-caller"
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=gnu11", "-O2", "-s", "-Wall")
_TIMEOUT_S = 60.0
# the longest path in the line #!; the kernel reads 256 bytes of this line, including the command's name
_SHEBANG_BYTES = 200


def compile_caller(directory: Path) -> Path | None:
    """Compile the caller to a program in this directory, and return its path. Return None if there is no compiler, or
    if the program cannot be run in this directory. Raises OSError."""
    made = directory.absolute() / NAME
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name)) is not None), None)
    text = os.fsencode(made)
    if compiler is None or len(text) > _SHEBANG_BYTES or len(text.split()) != 1:
        made.unlink(missing_ok=True)
        return None
    source = Path(caller.__file__).with_suffix(".c")
    settings = {
        "EXECUTABLE": os.fsencode(sys.executable),
        "IDENTITY": caller.identity(str(caller.__file__)),
        "MESSAGE": caller.LOST,
    }
    defined = [f"-D{name}={_literal(value)}" for name, value in settings.items()]
    part = made.with_name(f"{NAME}.{os.getpid()}")
    try:
        with suppress(OSError, subprocess.SubprocessError):
            words = (compiler, *_FLAGS, *defined, "-o", str(part), str(source))
            subprocess.run(words, check=True, capture_output=True, timeout=_TIMEOUT_S)
            subprocess.run((str(part),), check=True, capture_output=True, timeout=_TIMEOUT_S)
            part.chmod(0o755)
            return part.replace(made)
        made.unlink(missing_ok=True)
        return None
    finally:
        part.unlink(missing_ok=True)


def _literal(text: bytes) -> str:
    """Return the text as a string literal of C."""
    return '"' + "".join(f"\\{byte:03o}" for byte in text) + '"'
