"""Count the objects of each namespace by kind, and the bytes of these objects. Every write updates the counts, so that
reading a count costs almost nothing.

The counts include accepted writes that are not on the disk yet, because quotas must be checked against the newest
state.
"""

from __future__ import annotations

from collections import Counter

Key = tuple[str, str]  # (group, plural)


class StoreTally:
    """The counts of the objects in one store."""

    def __init__(self) -> None:
        self._objects: dict[str, Counter[Key]] = {}
        self._size_bytes: Counter[str] = Counter()

    def change(self, key: Key, namespace: str, before: bytes | None, after: bytes | None) -> None:
        """Count a change of an object. `before` and `after`: the object as JSON before and after the change; None if it
        does not exist then."""
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
        """Return the number of objects of each kind in the namespace."""
        return self._objects.get(namespace, Counter())

    def size_bytes(self, namespace: str) -> int:
        """Return the total size of the namespace's objects as JSON, in bytes."""
        return self._size_bytes[namespace]
