"""The capacity profile of one node, in plain integers, is that of many nodes when there is but one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from phalanx.core.backfill.profile import CapacityProfile, OneNodeProfile, PlannedRun
from phalanx.core.backfill.shadow_time import HeldCapacity, free_by_row
from phalanx.core.placement.draft import Draft
from phalanx.model.job import Job
from tests.core.builders import cluster, job, node, role

NOW_S = 100.0


def asking(seed: Random, name: str) -> Job:
    """A job of one role or two, some of which take more than their minimum, or ask what the node does not name."""
    roles = []
    for at in range(seed.choice([1, 1, 1, 2])):
        minimum = seed.randint(1, 3)
        asks = {"cpu": seed.randint(1, 6)} | ({"gpu": seed.randint(1, 2)} if seed.random() < 0.3 else {})
        asks |= {"licence": 1} if seed.random() < 0.05 else {}
        roles.append(role(f"r{at}", minimum + seed.choice([0, 0, 0, 2]), minimum, **asks))
    return job(name, *roles)


def of(run: PlannedRun | None) -> tuple[float, float, dict[str, int]] | None:
    return None if run is None else (run.start_s, run.end_s, run.held.in_all)


@pytest.mark.parametrize("number", range(12))
def test_what_is_found_and_reserved_on_one_node_is_what_arrays_say(number: int) -> None:
    seed = Random(f"profile {number}")
    jobs = [asking(seed, f"j{at}") for at in range(12)]
    book = cluster(node("n", cpu=12, gpu=3, pods=9), *jobs)
    draft = Draft(book.columns)
    free = free_by_row(draft)
    free["cpu"][draft.rows] = seed.randint(-1, 4)
    releases = []
    for end_s in sorted(NOW_S + seed.randint(-5, 60) for _ in range(8)):
        held = {name: np.array([seed.randint(0, 2)]) for name in ("cpu", "pods")}
        releases.append((end_s, HeldCapacity(draft.rows.copy(), held)))
    plain, arrays = (kind(book, draft, NOW_S, free, releases) for kind in (OneNodeProfile, CapacityProfile))
    found = 0
    for each in jobs:
        gang, runs_s = book.jobs[each.id].gang, seed.choice([float(seed.randint(1, 40)), float("inf")])
        runs = [profile.earliest_run(each, gang, runs_s) for profile in (plain, arrays)]
        assert of(runs[0]) == of(runs[1])
        if runs[0] is not None and runs[1] is not None:
            plain.take(runs[0])
            arrays.take(runs[1])
            found += 1
        if seed.random() < 0.3:  # somebody leaves at once, and others come
            held, until_s = releases[seed.randrange(8)][1], NOW_S + seed.randint(0, 50)
            for profile in (plain, arrays):
                profile.change(held, NOW_S, until_s, 1)
        at_s = NOW_S + seed.randint(-3, 70)
        one = [other for other in jobs if len(other.roles) == 1]
        for other in one:
            assert plain.is_short(book.jobs[other.id].gang, at_s) == arrays.is_short(book.jobs[other.id].gang, at_s)
        beside = [profile.beside(each, at_s) for profile in (plain, arrays)]
        assert all((beside[0][name][draft.rows] == beside[1][name][draft.rows]).all() for name in free)
    assert found > 2
