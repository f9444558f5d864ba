"""Read all definitions of a dialect (such as its queues) together. An error in one definition affects neither other
definitions nor other users' jobs. A definition that cannot be read is reported, and its last readable version stays in
effect. If the definitions contradict each other, although each one is valid alone, the earlier versions of all
definitions stay in effect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from phalanx.client.connection import Object
from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Definitions, Dialect, Objects
from phalanx.kube.read.fault_log import FaultLog, fault_text

log = logging.getLogger(__name__)

_SOME = "some definitions of %s cannot be read; the other definitions are used: %s"
_TOGETHER = "the definitions of %s cannot be read together; the earlier definitions stay in effect: %s"


class DefinitionReader:
    """The reader of dialects' definitions (such as another scheduler's queues). `objects`: a function that returns the
    objects of a kind, or None if the API server does not serve the kind. `invalid`: a function that is called with a
    definition that cannot be read."""

    def __init__(
        self,
        objects: Callable[[Kind], Mapping[str, Object] | None],
        invalid: Callable[[Kind, Object, str], None],
    ) -> None:
        self._objects, self._invalid = objects, invalid
        self._faults = FaultLog()
        self._last: dict[str, Objects] = {}  # dialect -> the objects of its last valid definitions

    def read(self, dialect: Dialect[Any]) -> Definitions | None:
        """Read the cached objects of the dialect, and return the definitions in them; None if the earlier definitions
        stay in effect. An error in one definition affects neither the other definitions nor other users' jobs."""
        listed = ((kind, self._objects(kind)) for kind in dialect.definition_kinds)
        found = {kind: objects for kind, objects in listed if objects is not None}
        defined: Definitions
        try:
            defined = dialect.define(found)
        except Exception as error:  # a definition triggers a bug in the dialect's code
            self._log(dialect, error, _SOME)
            try:
                found = {kind: dict(self._readable(dialect, kind, found)) for kind in found}
                defined = dialect.define(found)
            except Exception as together:  # each definition is valid alone, but they contradict each other
                self._log(dialect, together, _TOGETHER)
                return None
        else:
            for text in (_SOME, _TOGETHER):
                self._faults.pop(f"{dialect.name}: {text}", None)
        self._last[dialect.name] = {kind: dict(objects) for kind, objects in found.items()}
        return defined

    def _log(self, dialect: Dialect[Any], error: Exception, text: str) -> None:
        """Log the error, unless it is the same as at the previous change of a definition of the dialect."""
        if self._faults.is_new(f"{dialect.name}: {text}", why := fault_text(error)):
            log.warning(text, dialect.name, why)
            log.debug("the error was raised at", exc_info=error)

    def _readable(self, dialect: Dialect[Any], kind: Kind, found: Objects) -> Iterator[tuple[str, Object]]:
        """Yield the objects of the kind. If an object cannot be read, report it, and yield its last readable version
        instead. To find the invalid objects, each object is read alone."""
        nothing: Objects = {each: {} for each in found}
        before = self._last.get(dialect.name, nothing).get(kind, {})
        for key, obj in found[kind].items():
            try:
                dialect.define({**nothing, kind: {key: obj}})
            except Exception as error:  # this definition cannot be read
                why = f"it cannot be read: {type(error).__name__}: {error}"
                self._invalid(
                    kind, obj, f"{'its last valid version is used' if key in before else 'it is ignored'}: {why}"
                )
                if key in before:
                    yield key, before[key]
            else:
                yield key, obj
