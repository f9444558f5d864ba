"""Random seeds: a few nodes, jobs of every dialect, and many kinds of events. After the events no fault may be left.

`PHALANX_SEEDS` sets the seeds (`tests.seeds`). The default is 300: `make check` plays the first few, `make test` 24,
and `make slow` the others. `make fuzz` plays 5,000. A failure shows its seed and its events. `Story(SEED)` plays the
seed again."""

from __future__ import annotations

import pytest

from tests import clockwork
from tests.seeds import mostly_slow, seeds

from .story import Story

SEEDS = seeds(count=300)
PARCEL = max(4, len(SEEDS) // 75)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", mostly_slow(SEEDS[::PARCEL], fast=1, sample=4))
def test_after_whatever_happened_all_is_well(first: int) -> None:
    for seed in range(first, min(SEEDS.stop, first + PARCEL)):
        story = Story(seed)
        try:
            wrong = clockwork.run(story.play())
        except Exception as error:
            error.add_note("\n".join([f"seed {seed}", *story.log]))
            raise
        assert not wrong, "\n".join([f"seed {seed}", *wrong, *story.log])
