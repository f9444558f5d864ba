"""The newest state of a cluster, and what changed since an earlier one.

Each published state has an id, `NONCE-NUMBER`. A page that has state `a` gets the changes since `a`, as long as these
are kept. Otherwise, also when the server was started again, it gets the whole state.
"""

from __future__ import annotations

import asyncio
import gzip
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from phalanx.dashboard.rows import PageState

KEPT = 128  # changes


@dataclass(frozen=True, slots=True)
class Change:
    """A change that leads to the state with the number `to`. `body`: JSON, sections with the rows that are `set` and
    the keys that are `gone`; and the facts."""

    to: int
    body: bytes


class Packed:
    """Content that is also available compressed. It is compressed at the first request, and then kept."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._gzipped = b""

    @property
    def gzipped(self) -> bytes:
        if not self._gzipped:
            self._gzipped = gzip.compress(self.plain, 5, mtime=0)
        return self._gzipped


class Board:
    """The newest state and its changes, for viewers who may see the same."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(4)
        self._number = 0
        self._state: PageState | None = None
        self._changes: deque[Change] = deque(maxlen=KEPT)
        self._whole: Packed | None = None
        self._news = asyncio.Event()

    @property
    def id(self) -> str:
        """The id of the newest state."""
        return self._id(self._number)

    def _id(self, number: int) -> str:
        return f"{self._nonce}-{number}"

    @property
    def empty(self) -> bool:
        return self._state is None

    def publish(self, state: PageState) -> None:
        """Publish a new state."""
        if state is self._state:
            return
        if self._state is not None:
            self._number += 1
            self._changes.append(Change(self._number, msgspec.json.encode(difference(self._state, state))))
        self._state, self._whole = state, None
        news, self._news = self._news, asyncio.Event()
        news.set()

    def whole(self) -> bytes:
        """Return the newest state as JSON, with its id."""
        return self.packed().plain

    def packed(self) -> Packed:
        """Return the newest state as JSON with its id, also available compressed."""
        assert self._state is not None
        if self._whole is None:
            rows = {name: list(section.values()) for name, section in self._state.sections().items()}
            self._whole = Packed(msgspec.json.encode({"id": self.id, "facts": self._state.facts, **rows}))
        return self._whole

    def since(self, known: str) -> list[tuple[str, str, bytes]] | None:
        """Return the changes since the state with the id `known`, each as (id before, id after, change). Return None if
        not all of them are kept any more."""
        nonce, _, number = known.rpartition("-")
        if nonce != self._nonce or not number.isdecimal() or int(number) > self._number:
            return None
        found = [change for change in self._changes if change.to > int(number)]
        if len(found) != self._number - int(number):
            return None
        return [(self._id(change.to - 1), self._id(change.to), change.body) for change in found]

    async def changed(self) -> None:
        """Wait until a newer state is published."""
        await self._news.wait()


def difference(old: PageState, new: PageState) -> dict[str, Any]:
    """Return the changes from the old state to the new one."""
    found: dict[str, Any] = {"facts": new.facts}
    before = old.sections()
    for name, section in new.sections().items():
        known: Mapping[str, Any] = before[name]
        changed = [row for key, row in section.items() if known.get(key) != row]
        gone = [key for key in known if key not in section]
        if changed or gone:
            found[name] = {"set": changed, "gone": gone}
    return found
