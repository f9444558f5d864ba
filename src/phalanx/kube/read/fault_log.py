"""The errors of objects that cannot be read or handled: their text, and which of them have already been logged."""

from __future__ import annotations

from phalanx.errors import PhalanxError

_LONGEST = 500
# If a user creates and deletes many invalid objects, the log keeps only the errors of the last ones.
MOST_FAULTS = 4096


def fault_text(error: Exception) -> str:
    """Return the text that reports why an object cannot be read."""
    name = "" if isinstance(error, PhalanxError) else f"{type(error).__name__}: "
    return f"it cannot be read: {name}{error}"[:_LONGEST]


class FaultLog(dict[str, str]):
    """The last error of each object that has an error now. The caller logs an error only if it is new, because one
    invalid object may cause the same error at each of its changes. The caller removes the entry of an object that no
    longer has an error. If there are more than `MOST_FAULTS` entries, the oldest is removed, because a caller may not
    learn of a deletion."""

    def is_new(self, about: str, fault: str) -> bool:
        """Record the error of the object `about`. Return False if it is the same as the object's last error."""
        if self.get(about) == fault:
            return False
        self.pop(about, None)  # so that the newest error is the last entry
        self[about] = fault
        if len(self) > MOST_FAULTS:
            del self[next(iter(self))]
        return True
