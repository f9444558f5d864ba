"""Owners that an object names twice."""

from __future__ import annotations

from typing import Any

from phalanx.embedded.apimachinery.meta.objectmeta import without_double_owners


class Counted(dict[str, Any]):
    """An owner that counts how often it is held against another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as of a dict


def test_owners_that_are_there_twice_are_dropped_and_not_each_held_against_all() -> None:
    owners = [Counted(kind="Job", name=f"slurm-1-{at}", uid=f"u{at}") for at in range(1000)]
    again = Counted(uid="u7", name="slurm-1-7", kind="Job")  # the same in another order
    other = Counted(kind="Job", name="slurm-1-7", uid="u0")
    meta: dict[str, Any] = {"ownerReferences": [*owners, again, other]}
    warnings = without_double_owners(meta)
    assert Counted.compared <= 2 * len(owners)  # before anything is held against them here
    assert [one["uid"] for one in meta["ownerReferences"]] == [*(f"u{at}" for at in range(1000)), "u0"]
    assert len(warnings) == 1
    assert warnings[0].endswith("observed: u7")
    assert without_double_owners(meta) == []
