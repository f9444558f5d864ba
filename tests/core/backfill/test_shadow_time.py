"""The time at which running jobs have released enough capacity: sums over many releases at once equal adding them one
by one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from phalanx.core.backfill.shadow_time import FIRST_BLOCK, Free, HeldCapacity, Release, ReleaseTimeline, has_room
from phalanx.state.classes import Gang
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role

RESOURCES = ("cpu", "gpu", "pods")


def released(seed: Random, rows: int) -> HeldCapacity:
    """What some job gives back: on some rows, of some resources."""
    at = np.array(sorted(seed.sample(range(rows), seed.randint(0, 3))), np.intp)
    some = [name for name in RESOURCES if seed.random() < 0.8]
    return HeldCapacity(at, {name: np.array([seed.randint(0, 2) for _ in at], np.int64) for name in some})


def one_by_one(book: Cluster, free: Free, releases: Sequence[Release], gang: Gang) -> dict[float, Free]:
    """Each time at which there is enough, and the room then, found by adding release after release; now is 0."""
    room, left, found = {name: column.copy() for name, column in free.items()}, list(releases), {}
    for time_s in sorted({0.0, *(max(0.0, at_s) for at_s, _ in releases)}):
        while left and left[0][0] <= time_s:
            left.pop(0)[1].add_to(room, 1)
        if has_room(book.columns, room, gang):
            found[time_s] = {name: column.copy() for name, column in room.items()}
    return found


@pytest.mark.parametrize("number", range(40))
def test_the_first_time_and_all_after_are_those_found_one_by_one(number: int) -> None:
    seed = Random(f"timeline {number}")
    nodes = [node(f"n{at}", cpu=8, gpu=4) for at in range(6)]
    roles = [role(f"r{at}", seed.randint(1, 4), cpu=seed.randint(1, 3), gpu=seed.randint(0, 2)) for at in (0, 1)]
    asking = job("j", *roles[: seed.randint(1, 2)])
    book = cluster(*nodes, asking)
    gang = book.jobs["j"].gang
    rows = book.columns.capacity
    free = {name: np.array([seed.randint(-2, 1) for _ in range(rows)], np.int64) for name in book.columns.free}
    many = seed.choice([0, 5, FIRST_BLOCK, 3 * FIRST_BLOCK + 1])
    ends = sorted(float(seed.randint(-20, 100)) for _ in range(many))
    releases = [(at_s, released(seed, 6)) for at_s in ends]
    timeline = ReleaseTimeline(book.columns, 0.0, free, releases)
    starts, expected = dict(timeline.starts(gang)), one_by_one(book, free, releases, gang)
    assert list(starts) == list(expected)
    for time_s, room in expected.items():
        assert all((starts[time_s][name] == column).all() for name, column in room.items())
