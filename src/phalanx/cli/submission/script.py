"""Read the options that a script contains in `#PHALANX` lines, as sbatch reads `#SBATCH` lines.

    #!/bin/sh
    #PHALANX --pods 4 --gpu 8 --time-limit 8h
    torchrun train.py

With this script, `phalanx submit train.sh` has the effect of `phalanx submit --pods 4 --gpu 8 --time-limit 8h --
/path/of/train.sh`. An option of the command line overrides the same option of the script.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from phalanx.errors import PhalanxError

MARK = "#PHALANX"
_SHORT = {"-p": "--pods", "-q": "--queue", "-t": "--time-limit", "-n": "--namespace"}
# options that may be given both in the script and on the command line
_REPEATED = frozenset({"--env", "--after", "--depends-on"})
_MOST_BYTES = 1 << 20


def is_script(word: str) -> bool:
    """Return True if the word is the path of a file that begins with `#!`."""
    try:
        with open(word, "rb") as file:
            return os.path.isfile(word) and file.read(2) == b"#!"
    except (OSError, ValueError):
        return False


def script_line(before: Sequence[str], file: str, args: Sequence[str], flags: frozenset[str]) -> list[str]:
    """Return the words of a command line that submits the script. `before`: the options before the script on the
    command line. `args`: the arguments of the script. `flags`: the options that take no value. Raises PhalanxError if
    the script cannot be read."""
    given = {_name(word) for word in before if word.startswith("-")}
    own: list[str] = []
    for option in _options(file, flags):
        if _name(option[0]) not in given or _name(option[0]) in _REPEATED:
            own += option
    return [*own, *before, "--", *_command(file), *args]


def _options(file: str, flags: frozenset[str]) -> Iterator[list[str]]:
    """Yield each option of the script, as a list of the option and its value."""
    try:
        text = Path(file).read_bytes()[:_MOST_BYTES].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}.") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return  # options end at the first line that is not a comment
        if line.split(None, 1)[:1] != [MARK]:
            continue
        try:
            words = shlex.split(line.removeprefix(MARK), comments=True)
        except ValueError as error:
            raise PhalanxError(f"{file}:{number}: {error}. Nothing was created.") from None
        while words:
            if not words[0].startswith("-"):
                raise PhalanxError(f"{file}:{number}: {words[0]!r} is not an option. Nothing was created.")
            size = 1 if "=" in words[0] or words[0] in flags else 2
            yield words[:size]
            words = words[size:]


def _command(file: str) -> list[str]:
    """Return the command that runs the script: its path or, if the script is not executable, its interpreter and its
    path."""
    path = os.path.abspath(file)
    if os.access(path, os.X_OK):
        return [path]
    with open(path, "rb") as script:
        first = script.readline(4096).decode(errors="replace").removeprefix("#!").strip()
    # the rest of the line is one argument of the interpreter (execve(2))
    return [*(first or "/bin/sh").split(None, 1), path]


def _name(option: str) -> str:
    word = option.partition("=")[0]
    return _SHORT.get(word, word)
