"""Copy objects to another cluster.

The first part of this module counts the found, the moved and the remaining objects of each kind. The second part
converts an object so that the other cluster can create it, and checks whether the other cluster already has the object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """An object that is not moved. `name`: NAMESPACE/NAME, or NAME. `why`: the reason, and the solution for the
    user."""

    kind: str
    name: str
    why: str


@dataclass(slots=True, kw_only=True)
class TallyRow:
    """The numbers of objects of a kind. `found`: at the source. `moved`: created or changed at the target by this move.
    `there`: objects that the target already has."""

    found: int = 0
    moved: int = 0
    there: int = 0


@dataclass(slots=True)
class MoveTally:
    """The result of a move. `rows`: kind -> its numbers of objects, in the order of the move. `left`: the objects that
    were not moved. `notes`: further notes for the user. `tick`: a function that is called with the number of steps that
    were finished since its last call."""

    rows: dict[str, TallyRow] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tick: Callable[[int], None] = lambda steps: None

    def row(self, kind: str) -> TallyRow:
        return self.rows.setdefault(kind, TallyRow())

    def leave(self, kind: str, name: str, why: str) -> None:
        self.left.append(Left(kind=kind, name=name, why=why))

    def json(self) -> dict[str, Any]:
        rows = [{"kind": kind, **asdict(row), "left": self._left(kind)} for kind, row in self.rows.items()]
        return {"kinds": rows, "left": [asdict(one) for one in self.left], "notes": self.notes}

    def table(self) -> list[tuple[str, ...]]:
        """Return the cells of the table of results: a row for each kind of which the source has objects."""
        rows = ((kind, row.found, row.moved, row.there, self._left(kind)) for kind, row in self.rows.items())
        return [tuple(map(str, cells)) for cells in rows if cells[1]]

    def reasons(self) -> Iterator[tuple[str, str, str]]:
        """Yield (kind, names, why) for the objects that were not moved. Objects of one kind with the same reason share
        a line."""
        groups: dict[tuple[str, str], list[str]] = {}
        for one in self.left:
            groups.setdefault((one.kind, one.why), []).append(one.name)
        for (kind, why), names in groups.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield kind, f"{', '.join(names[:3])}{more}", why

    def _left(self, kind: str) -> int:
        return sum(one.kind == kind for one in self.left)


# --- copies -----------------------------------------------------------------------------------------------------------

# Prefixes of annotations that other programs write for their own use.
_OTHERS = ("kubectl.kubernetes.io/", "deployment.kubernetes.io/", "pv.kubernetes.io/", "volume.")
# fields in which the target's object may have no further keys
_EXACT = ("data", "binaryData", "stringData", "rules", "subjects", "roleRef")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copier:
    """Copies objects to the target. A second copy of the same object has no effect. `tally`: counts the results.
    `dry`: True to write nothing. `replace`: True to replace objects of the target whose content differs; False to keep
    and report them."""

    target: Connection
    tally: MoveTally
    dry: bool = False
    replace: bool = False

    async def copy(self, kind: Kind, obj: Object, title: str = "", *, theirs_wins: bool = False) -> Object | None:
        """Copy an object. Return the target's object, or None if the target does not have it afterwards. `title`: the
        name of the kind in the table of results. `theirs_wins`: if the target has the object with other content, True
        keeps this object without a report."""
        row, body = self.tally.row(title or kind.name), portable(kind, obj)
        row.found += 1
        meta = body["metadata"]
        name, namespace = meta["name"], meta.get("namespace", "")
        there = await find(self.target, kind, name, namespace)
        if there is not None and (theirs_wins or contains(there, body)):
            row.there += 1
            return there
        try:
            if there is not None and not self.replace:
                self._leave(kind, title, body, "the target has another object with this name; --replace overwrites it")
                return there
            row.moved += 1
            if self.dry:
                return body
            if there is not None:
                body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
                return await self.target.replace(kind, body)
            return await self.target.create(kind, body, namespace)
        except ApiRefusal as error:
            row.moved -= 1
            self._leave(kind, title, body, f"the target refuses it: {error.message}")
            return None

    def _leave(self, kind: Kind, title: str, body: Object, why: str) -> None:
        self.tally.leave(title or kind.name, title_of(body), why)


def portable(kind: Kind, obj: Object) -> Object:
    """Return a copy of the object without its status, its owners (whose uids differ at the target), and the metadata
    that the source's server wrote."""
    found = deepcopy({key: value for key, value in obj.items() if key != "status"})
    meta = obj["metadata"]
    own = {key: deepcopy(meta[key]) for key in ("name", "namespace", "labels", "annotations") if meta.get(key)}
    if "annotations" in own:
        notes = {key: text for key, text in own["annotations"].items() if not key.startswith(_OTHERS)}
        own["annotations"] = notes
    return {**found, "apiVersion": kind.api_version, "kind": kind.name, "metadata": own}


def contains(there: object, wanted: object, key: str = "") -> bool:
    """Return True if the value `there` has all fields of `wanted` with the same values. The value may have other fields
    too, because servers add fields; the mappings in `_EXACT` may not. `key`: the name of the field with these
    values."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        if key in _EXACT and there.keys() != wanted.keys():
            return False
        return all(contains(there.get(name), value, name) for name, value in wanted.items())
    if isinstance(wanted, list) and isinstance(there, list):
        pairs = zip(there, wanted, strict=False)
        return len(there) == len(wanted) and all(contains(one, other) for one, other in pairs)
    return bool(there == wanted) or (not there and not wanted and not isinstance(wanted, bool | int))


def title_of(obj: Object) -> str:
    """Return NAMESPACE/NAME of the object, or NAME if it has no namespace."""
    meta = obj["metadata"]
    return "/".join(filter(None, (meta.get("namespace"), meta["name"])))


async def find(connection: Connection, kind: Kind, name: str, namespace: str = "") -> Object | None:
    """Return the object; None if it does not exist, or if the server does not serve the kind."""
    try:
        return await connection.get(kind, name, namespace)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        return None


async def objects(connection: Connection, kind: Kind) -> AsyncIterator[Object]:
    """Yield all objects of a kind. Yield nothing if the server does not serve the kind."""
    try:
        found = (await connection.list(kind))["items"]
    except ApiRefusal as error:
        if error.code != 404:
            raise
        return
    for obj in found:
        yield obj


def owners(obj: Object, kinds: Collection[str]) -> list[tuple[str, str]]:
    """Return (kind, name) of each owner of the object whose kind is in `kinds`."""
    refs = obj["metadata"].get("ownerReferences") or ()
    return [(ref["kind"], ref["name"]) for ref in refs if ref["kind"] in kinds]
