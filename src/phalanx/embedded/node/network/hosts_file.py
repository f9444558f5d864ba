"""A pod's /etc/hosts, which changes while programs read it.

The file is mounted into containers, so it cannot be replaced, and a reader could see half of a rewrite. So each line
has a slot of a whole number of blocks. It is written as a comment first, and takes effect when its first byte is
written; it is removed by becoming a comment again. A concurrent reader sees the old or the new state only. Free slots
are reused, so the file does not grow with the number of past pods.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

_MARK = b"# What follows is kept up to date while the pod runs.\n"
_BLOCK = 64


def create(path: Path, head: Sequence[str], machine: bytes) -> None:
    """Create the file from `head` and the lines of the machine's own hosts file. An existing file is not changed.
    Raises OSError."""
    if path.exists():
        return
    draft = path.with_name(path.name + ".new")
    text = "".join(f"{line}\n" for line in ("# Kubernetes-managed hosts file.", *head)).encode()
    draft.write_bytes(text + machine.rstrip(b"\n") + b"\n" + _MARK)
    draft.chmod(0o644)
    draft.rename(path)


def show(path: Path, lines: Iterable[str]) -> None:
    """Change the variable part of the file to exactly `lines`. Raises OSError."""
    text = path.read_bytes()
    wanted = {line.encode() for line in lines}
    free: dict[int, list[int]] = {}  # length -> offsets
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        for offset, slot in _slots(text):
            line = slot.rstrip()
            if line in wanted:
                wanted.discard(line)
                continue
            if not slot.startswith(b"#"):
                os.pwrite(handle, b"#", offset)
            free.setdefault(len(slot), []).append(offset)
        end = len(text)
        for line in sorted(wanted):
            slot = _slot(line)
            places = free.get(len(slot))
            offset = places.pop() if places else end
            os.pwrite(handle, b"#" + slot[1:], offset)
            os.pwrite(handle, slot[:1], offset)
            end = max(end, offset + len(slot))
    finally:
        os.close(handle)


def _slot(line: bytes) -> bytes:
    """Return the line, padded with spaces to a whole number of blocks, with its newline at the end."""
    length = -(-(len(line) + 1) // _BLOCK) * _BLOCK
    return line.ljust(length - 1) + b"\n"


def _slots(text: bytes) -> Iterable[tuple[int, bytes]]:
    offset = text.index(_MARK) + len(_MARK)
    for slot in text[offset:].splitlines(keepends=True):
        yield offset, slot
        offset += len(slot)
