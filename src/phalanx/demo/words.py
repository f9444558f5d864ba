"""The work of the demo applications: count the words of a real text.

The text is the source code of Python's standard library (Python Software Foundation License; about ten megabytes).
Every machine that can run Phalanx has it, and all processes on one machine read the same text. `python -m
phalanx.demo.words` counts the words in a single process; this result is the reference.
"""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

PART_CHARACTERS = 256 * 1024
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_NOT_THE_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summary of word counts, to compare the counts of two processes. `words`: the number of words. `distinct`: the
    number of different words. `digest`: a hash of all words and their counts."""

    words: int
    distinct: int
    most_common: list[tuple[str, int]]
    digest: str

    def line(self) -> str:
        """Return the summary as a line of JSON."""
        return msgspec.json.encode(asdict(self)).decode()


def read_summary(line: str) -> Summary:
    """Return the summary in a line that `Summary.line` has created. Raises msgspec.DecodeError."""
    return msgspec.json.decode(line, type=Summary)


def parts(size: int = PART_CHARACTERS) -> Iterator[str]:
    """Yield the text in pieces of about `size` characters. Every call yields the same pieces in the same order. Each
    piece consists of whole files."""
    piece: list[str] = []
    length = 0
    for path in _library():
        piece.append(path.read_text(encoding="utf-8", errors="replace"))
        length += len(piece[-1])
        if length >= size:
            yield "\n".join(piece)
            piece, length = [], 0
    if piece:
        yield "\n".join(piece)


def count(text: str) -> Counter[str]:
    """Return the number of occurrences of each word. Words are converted to lower case."""
    return Counter(_WORD.findall(text.lower()))


def summarize(counts: Counter[str]) -> Summary:
    listing = "".join(f"{word} {number}\n" for word, number in sorted(counts.items()))
    return Summary(
        words=counts.total(),
        distinct=len(counts),
        most_common=sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5],
        digest=hashlib.sha256(listing.encode()).hexdigest(),
    )


def _library() -> list[Path]:
    found = []
    for folder, folders, files in os.walk(sysconfig.get_path("stdlib")):
        folders[:] = sorted(set(folders) - _NOT_THE_LIBRARY)
        found += [Path(folder, file) for file in sorted(files) if file.endswith(".py")]
    return found


if __name__ == "__main__":
    whole: Counter[str] = Counter()
    for part in parts():
        whole.update(count(part))
    print(summarize(whole).line())
