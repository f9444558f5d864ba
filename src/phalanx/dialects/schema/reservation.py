"""Parses a reservation: the `spec` of the Reservation resource (`phalanx.dev/v1`), and of reservations in files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.dialects.schema.fields import Fields, Misread, Path, moment_s
from phalanx.model.node import Reservation


def read_reservation(name: str, spec: Any, *, moment: Callable[[Any, Path], float] = moment_s) -> Reservation:
    """Return the reservation. `moment`: parses `start` and `end` into seconds since the epoch; by default from RFC
    3339. Raises Misread."""
    said = Fields(spec, ("spec",))
    start_s, end_s = (moment(said.value(field), ("spec", field)) for field in ("start", "end"))
    if end_s <= start_s:
        raise Misread(("spec", "end"), "it ends before it begins: write a later time")
    found = Reservation(
        name=name,
        start_s=start_s,
        end_s=end_s,
        nodes=said.texts("nodes"),
        users=said.texts("users"),
        groups=said.texts("groups"),
        queues=said.texts("queues"),
        magnetic=said.flag("magnetic"),
    )
    said.done()
    if not found.nodes:
        raise Misread(("spec", "nodes"), "it reserves no nodes: name one at least")
    return found
