"""Keep an invalid object of a user from affecting any other object.

The functions that read objects report the errors that they know. If any other exception is raised while an object is
read, the object counts as invalid. Its last valid state stays in effect; a new invalid object is ignored. The error is
reported by one Event, and the scheduler continues. No object that a user can write may stop the scheduler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from phalanx.client.connection import Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import Kind
from phalanx.kube.read.fault_log import FaultLog, fault_text

log = logging.getLogger(__name__)

Take: TypeAlias = Callable[[Change], None]
Report: TypeAlias = Callable[[Kind, Object, str], None]  # reports a text to users by an Event on an object


class Fence:
    """Protect the scheduler from invalid objects. `invalid`: a function that is called with an object that cannot be
    read, and with the error. It is called once for each error of an object, and again only if the object was valid in
    between."""

    def __init__(self, invalid: Report) -> None:
        self._invalid = invalid
        self._faults = FaultLog()

    def around(self, *takes: Take) -> Take:
        """Return a function that passes a change to each of the functions `takes`, one after the other, and catches
        their exceptions."""

        def fenced(change: Change) -> None:
            try:
                for take in takes:
                    take(change)
            except Exception as error:  # whatever the error is, other objects must still be read
                self._tell(change, error)
            else:
                self._faults.pop((change.new or change.old or {})["metadata"]["uid"], None)

        return fenced

    def _tell(self, change: Change, error: Exception) -> None:
        obj = change.new or change.old or {}
        uid, why = obj["metadata"]["uid"], fault_text(error)
        if not self._faults.is_new(uid, why):
            return
        log.warning("%s %s is invalid; its last valid state is used, if any: %s", change.kind.name, key_of(obj), why)
        log.debug("the error was raised at", exc_info=error)
        self._invalid(change.kind, obj, why)
