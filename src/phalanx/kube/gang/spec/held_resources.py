"""Reserve capacity for pods that a running driver has yet to create (Spark's executors).

`phalanx.dev/min-resources` sets the amounts of the whole gang. The rest, without the existing pods, is divided into
equal pieces, one for each missing member if their number is known. Otherwise it is divided into the fewest equal blocks
that fit the largest node, because any real shape can be cut from a large block later. When the first real pod shows its
shape, the pieces on each node are divided again into as many pods of that shape as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

from phalanx.client.quantity import amount
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import read_json
from phalanx.model.pod import PODS, Amounts, Shape, amounts

_MOST_BLOCKS = 10_000


class GangSpecError(PhalanxError):
    """The manifests of a gang contain settings that cannot be carried out. The text names the setting, the object, and
    what to do."""


def read_resources(text: str) -> dict[str, int]:
    """Parse amounts: `{"cpu": "3", "memory": "3Gi"}` or `cpu=3,memory=3Gi`. Raises DeclarationError."""
    try:
        if text.lstrip().startswith("{"):
            pairs: Mapping[str, Any] = read_json(text, dict[str, Any])
        else:
            pairs = dict(_pair(part) for part in text.split(",") if part.strip())
        return {name: amount(name, value) for name, value in pairs.items() if name != PODS}
    except (PhalanxError, ArithmeticError, ValueError, TypeError) as error:
        raise GangSpecError(
            f"phalanx.dev/min-resources says {text[:60]!r}, which cannot be read ({error}): "
            'write for instance {"cpu": "3", "memory": "3Gi"} or cpu=3,memory=3Gi'
        ) from error


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise ValueError(f"{part.strip()!r} has no '='")
    return name.strip(), value.strip()


def remaining_resources(whole: Mapping[str, int], born: Iterable[Amounts]) -> dict[str, int]:
    """Return `whole` less the requests of the existing pods `born`; never below zero."""
    rest = dict(whole)
    for requests in born:
        for name, value in requests:
            if name in rest:
                rest[name] = max(0, rest[name] - value)
    return {name: value for name, value in rest.items() if value}


def equal_pieces(rest: Mapping[str, int], missing: int | None, largest: Mapping[str, int]) -> tuple[int, Amounts]:
    """Return (number, size) of the pieces of `rest`: `missing` equal pieces or, if that is None, the fewest blocks that
    fit the largest node."""
    if not rest:
        return 0, ()
    count = missing if missing is not None else _blocks(rest, largest)
    if count < 1:
        return 0, ()
    return count, amounts({**{name: ceil(value / count) for name, value in rest.items()}, PODS: 1})


def _blocks(rest: Mapping[str, int], largest: Mapping[str, int]) -> int:
    """Return the number of parts, at least one. A resource that no node has is not divided; the reason then states that
    it fits on no node."""
    return max(1, *(min(_MOST_BLOCKS, ceil(v / largest[n])) if largest.get(n) else 1 for n, v in rest.items()))


def pods_in_pieces(held: Iterable[Amounts], real: Shape) -> int:
    """Return the number of pods of the shape `real` that fit into the pieces held on one node together."""
    room: dict[str, int] = {}
    for piece in held:
        for name, value in piece:
            room[name] = room.get(name, 0) + value
    asks = [(name, value) for name, value in real.requests if name != PODS]
    return min((room.get(name, 0) // value for name, value in asks), default=room.get(PODS, 0))
