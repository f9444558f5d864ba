"""Count the objects of each namespace by kind, and their bytes. Every write updates the counts, so that reading them
costs nothing.

Counted is what the last decided writes leave, on the disk or not yet: what a quota has to be decided on.
"""

from __future__ import annotations

from collections import Counter

Key = tuple[str, str]  # (group, plural)


class StoreTally:
    """The counts of one store."""

    def __init__(self) -> None:
        self._objects: dict[str, Counter[Key]] = {}
        self._size_bytes: Counter[str] = Counter()

    def change(self, key: Key, namespace: str, before: bytes | None, after: bytes | None) -> None:
        """Count a change of an object from `before` to `after`, as JSON; None if the object does not exist."""
        objects = self._objects.setdefault(namespace, Counter())
        objects[key] += (after is not None) - (before is not None)
        self._size_bytes[namespace] += len(after or b"") - len(before or b"")
        if not objects[key]:
            del objects[key]
        if not objects:
            del self._objects[namespace]
        if not self._size_bytes[namespace]:
            del self._size_bytes[namespace]

    def objects(self, namespace: str) -> Counter[Key]:
        """Return how many objects of each kind there are."""
        return self._objects.get(namespace, Counter())

    def size_bytes(self, namespace: str) -> int:
        """Return the size of the namespace's objects as JSON, in bytes."""
        return self._size_bytes[namespace]
