"""Command lines in the manner of getopt_long(3), with its messages, which Slurm's users and scripts know.

A command declares its options; what Slurm has besides is declared too, as refused: it is refused by its name, and never
passed over.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NoReturn

import msgspec

from phalanx.errors import PhalanxError


class Usage(PhalanxError):
    """An invalid command line, with the exact text for standard error. `status`: the exit code."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.text, self.status = text, status


class Takes(Enum):
    NOTHING = 0
    VALUE = 1
    MAYBE = 2  # --nice or --nice=5


class Option(msgspec.Struct, frozen=True):
    """`refused`: Slurm has it, and it is not carried out here."""

    name: str
    letter: str = ""
    takes: Takes = Takes.NOTHING
    refused: bool = False


def declare(text: str, *, refused: bool = False) -> tuple[Option, ...]:
    """From words like `time,t=`, `hold,H`, `nice=?`."""
    found = []
    for word in text.split():
        takes = Takes.MAYBE if word.endswith("=?") else Takes.VALUE if word.endswith("=") else Takes.NOTHING
        name, _, letter = word.rstrip("=?").partition(",")
        found.append(Option(name, letter, takes, refused))
    return tuple(found)


_LAUNCHING = ("sbatch", "salloc", "srun")  # which end with 255 for an option that they do not know


class Reader:
    """Reads command lines of one command. `hint`: it says where help is after an unknown option."""

    def __init__(self, command: str, options: Iterable[Option], *, hint: bool = True, mixed: bool = True) -> None:
        """`mixed`: options may stand behind the first argument, as GNU has it."""
        self._command, self._hint, self._mixed = command, hint, mixed
        self._long = {option.name: option for option in options}
        self._short = {option.letter: option for option in self._long.values() if option.letter}

    def read(self, words: Sequence[str]) -> tuple[list[tuple[str, str | None]], list[str]]:
        """(name, value) in order, and the arguments. Raises Usage."""
        found: list[tuple[str, str | None]] = []
        arguments: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                arguments += rest
                break
            if word.startswith("--"):
                found.append(self._take_long(word[2:], rest))
            elif word.startswith("-") and len(word) > 1:
                found += self._take_short(word[1:], rest)
            else:
                arguments.append(word)
                if not self._mixed:
                    arguments += rest
                    break
        return found, arguments

    def _take_long(self, text: str, rest: list[str]) -> tuple[str, str | None]:
        name, equals, value = text.partition("=")
        option = self._long.get(name)
        if option is None:
            similar = sorted(each for each in self._long if each.startswith(name)) if name else []
            if len(similar) > 1:
                listed = " ".join(f"'--{each}'" for each in similar)
                self._fail(f"option '--{text}' is ambiguous; possibilities: {listed}")
            if not similar:
                self._fail(f"unrecognized option '--{text}'")
            option = self._long[similar[0]]
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
            found.append((option.name, letters or None))
            break
        return found

    def _require(self, option: Option) -> None:
        if option.refused:
            raise Usage(f"{self._command}: error: --{option.name} is not supported by Phalanx (docs/guide/slurm.md)")

    def _fail(self, text: str) -> NoReturn:
        hint = f'\nTry "{self._command} --help" for more information' if self._hint else ""
        raise Usage(f"{self._command}: {text}{hint}", 255 if self._command in _LAUNCHING else 1)


def say(text: str) -> None:
    """A line for the person."""
    sys.stderr.write(text + "\n")


def unknown_cluster(command: str, name: str) -> str:
    """Return Slurm's error about an unknown cluster of -M."""
    return (
        f"{command}: error: No cluster '{name}' known by database.\n"
        f"{command}: error: '{name}' can't be reached now, or it is an invalid entry for --cluster.  "
        "Use 'sacctmgr list clusters' to see available clusters."
    )
