"""Parse command lines as getopt_long(3) does. The messages are equal, because users and scripts of Slurm know them.

A command declares its options. It declares options that only Slurm has as refused. A refused option ends the command
with an error that names the option; it is never ignored.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NoReturn

import msgspec

from phalanx.errors import PhalanxError


class Usage(PhalanxError):
    """An error in a command line. The text is written to standard error unchanged.

    `status`: the exit code.
    """

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.text, self.status = text, status


class Takes(Enum):
    NOTHING = 0
    VALUE = 1
    MAYBE = 2  # --nice or --nice=5


class Option(msgspec.Struct, frozen=True):
    """An option of a command.

    `spelled`: the word on the command line. `name`: the common name of all spellings of the option. `refused`: True if
    Slurm has the option and Phalanx does not support it.
    """

    name: str
    letter: str = ""
    takes: Takes = Takes.NOTHING
    refused: bool = False
    spelled: str = ""


def declare(text: str, *, refused: bool = False) -> tuple[Option, ...]:
    """Return the options that a text declares with words like `time,t=`, `hold,H`, `nice=?`. The words are in the order
    in which Slurm lists the options.

    The word `node|nodelist,w=` declares two spellings of one option; the last spelling is the name of the option.
    """
    found = []
    for word in text.split():
        takes = Takes.MAYBE if word.endswith("=?") else Takes.VALUE if word.endswith("=") else Takes.NOTHING
        names, _, letter = word.rstrip("=?").partition(",")
        spellings = names.split("|")
        found += [Option(spellings[-1], letter, takes, refused, one) for one in spellings]
    return tuple(found)


# sbatch, salloc and srun list possible options in the order of Slurm's internal variables: option -> its sort key.
_PLACES = {
    "bb": "burst", "bbf": "burst_file", "cluster-constraint": "", "constraint": "contz", "cpu_bind": "cpu-bind_",
    "jobid": "job", "threads": "max", "usage": "uzz",
}  # fmt: skip
_WHOLE = ("container-image", "container-mounts")  # options that Slurm does not have: users cannot abbreviate them
_FORMS = ("parsable", "parsable2")  # the last of these options in a command line is used
_LAUNCHING = ("sbatch", "salloc", "srun")  # their exit code for an unknown option is 255


class OptionReader:
    """A reader of the command lines of one command. `hint`: True if the message about an unknown option names
    --help."""

    def __init__(self, command: str, options: Iterable[Option], *, hint: bool = True, mixed: bool = True) -> None:
        """`mixed`: True if options may follow the first argument, as in GNU getopt."""
        self._command, self._hint, self._mixed = command, hint, mixed
        listed = [(option.spelled or option.name, option) for option in options]
        if command in _LAUNCHING:
            listed.sort(key=lambda one: _PLACES.get(one[0], one[0]))
        self._long = dict(listed)
        self._short = {option.letter: option for option in self._long.values() if option.letter}

    def read(
        self, words: Sequence[str], check: Callable[[Sequence[tuple[str, str | None]]], None] | None = None
    ) -> tuple[list[tuple[str, str | None]], list[str]]:
        """Return (name, value) of each option in the order of the command line, and the arguments. `check`: a function
        that is called after each option with all options so far. So the first invalid option is reported, as in Slurm.
        Raises Usage."""
        found: list[tuple[str, str | None]] = []
        arguments = self._read(list(words), found, check)
        forms = [name for name, _ in found if name in _FORMS]
        return [one for one in found if one[0] not in _FORMS or one[0] == forms[-1]], arguments

    def _read(
        self,
        rest: list[str],
        found: list[tuple[str, str | None]],
        check: Callable[[Sequence[tuple[str, str | None]]], None] | None,
    ) -> list[str]:
        """Parse the words of `rest`, add the options to `found`, and return the arguments."""
        arguments: list[str] = []
        while rest:
            word = rest.pop(0)
            if word == "--":
                arguments += rest
                break
            if word.startswith("-") and len(word) > 1:
                long = word.startswith("--")
                for option in [self._take_long(word[2:], rest)] if long else self._take_short(word[1:], rest):
                    found.append(option)
                    if check is not None:
                        check(found)
            else:
                arguments.append(word)
                if not self._mixed:
                    arguments += rest
                    break
        return arguments

    def _take_long(self, text: str, rest: list[str]) -> tuple[str, str | None]:
        name, equals, value = text.partition("=")
        option = self._long.get(name)
        if option is None:
            similar = [each for each in self._long if each.startswith(name) and each not in _WHOLE] if name else []
            if not similar:
                self._fail(f"unrecognized option '--{text}'")
            option = self._long[similar[0]]
            if others := [each for each in similar if self._long[each].name != option.name]:
                listed = " ".join(f"'--{each}'" for each in (similar[0], *others))
                self._fail(f"option '--{text}' is ambiguous; possibilities: {listed}")
        self._require(option)
        if option.takes is Takes.NOTHING and equals:
            self._fail(f"option '--{option.name}' doesn't allow an argument")
        if option.takes is Takes.VALUE and not equals:
            if not rest:
                self._fail(f"option '--{option.name}' requires an argument")
            value = rest.pop(0)
        return option.name, value if equals or option.takes is Takes.VALUE else None

    def _take_short(self, letters: str, rest: list[str]) -> list[tuple[str, str | None]]:
        found: list[tuple[str, str | None]] = []
        while letters:
            letter, letters = letters[0], letters[1:]
            option = self._short.get(letter)
            if option is None:
                self._fail(f"invalid option -- '{letter}'")
            self._require(option)
            if option.takes is Takes.NOTHING:
                found.append((option.name, None))
                continue
            if not letters and option.takes is Takes.VALUE:
                if not rest:
                    self._fail(f"option requires an argument -- '{letter}'")
                letters = rest.pop(0)
            found.append((option.name, letters if letters or option.takes is Takes.VALUE else None))
            break
        return found

    def _require(self, option: Option) -> None:
        if option.refused:
            raise Usage(f"{self._command}: error: --{option.name} is not supported by Phalanx (docs/guide/slurm.md)")

    def _fail(self, text: str) -> NoReturn:
        hint = f'\nTry "{self._command} --help" for more information' if self._hint else ""
        raise Usage(f"{self._command}: {text}{hint}", 255 if self._command in _LAUNCHING else 1)


def say(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(text + "\n")


def interactive(command: str, carry_out: Callable[[Sequence[str]], int]) -> int:
    """Run commands from standard input until `exit` or the end of the input, and return the exit code 0."""
    while True:
        print(f"{command}: ", end="", flush=True)
        line = sys.stdin.readline()
        words = shlex.split(line)
        if not line or words[:1] in (["exit"], ["quit"]):
            if not line:
                print()
            return 0
        try:
            if words:
                carry_out(words)
        except PhalanxError as error:
            say(str(error))


def require_cluster(command: str, text: str, own: str, source: str = "--cluster") -> None:
    """Print an error for each cluster name in `text` that is not the name of this cluster, `own`. Raises Usage if no
    name is that of this cluster. `all` includes this cluster.

    `source`: the option or variable that names the clusters."""
    if text.lower() == "all":
        return
    names = text.split(",")
    unknown = "\n".join(
        f"{command}: error: No cluster '{name}' known by database." for name in names if name.lower() != own.lower()
    )
    if own.lower() not in (name.lower() for name in names):
        raise Usage(
            f"{unknown}\n{command}: error: '{text}' can't be reached now, or it is an invalid entry for {source}.  "
            "Use 'sacctmgr list clusters' to see available clusters."
        )
    if unknown:
        say(unknown)
