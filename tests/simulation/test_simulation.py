"""Random seeds, each with a workload and disturbances: no invariant may ever be violated.

`PHALANX_SEEDS` sets the number of seeds, which start at 0. The default is 120: `make check` plays the first 10, `make
test` 30, and `make slow` the others. `make fuzz` runs 10,000. The value may also be a range, as in 20000-20400. The
seeds run in parcels, so that they share the cores. The file seeds.txt lists seeds that once failed, each with its
fault. `make test` plays a third of these, and `make slow` the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeds import mostly_slow, seeds

from .simulate import HELD, Weather, simulate

SEEDS = seeds(count=120)
COUNT = len(SEEDS)
PARCEL = max(5, COUNT // 40)
LINES = [line.split() for line in (Path(__file__).parent / "seeds.txt").read_text().splitlines()]
UNBORN, PLAIN = Weather(unborn=True), Weather()
# the first word of a line in seeds.txt; PLAIN without one
WEATHERS = {"held:": HELD, "unborn:": UNBORN, "crowded:": Weather(crowded=True)}
FOUND = [(int(seed), WEATHERS.get(word, PLAIN)) for seed, word, *_ in filter(None, LINES) if seed.isdigit()]
SIXTHS = [each for first in range(6) for each in FOUND[first::6]]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", mostly_slow(SEEDS[::PARCEL], fast=1, sample=3))
def test_nothing_goes_wrong(first: int) -> None:
    played = [run(seed) for seed in range(first, min(SEEDS.stop, first + PARCEL))]
    assert all(played)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", mostly_slow([SEEDS[:5], SEEDS[5 : max(10, COUNT // 8)]], fast=0, sample=1), ids=str)
@pytest.mark.parametrize("weather", [HELD, UNBORN])
def test_gangs_that_are_known_before_their_pods_exist(weather: Weather, part: range) -> None:
    played = [run(seed, weather) for seed in part]
    assert all(played)


@pytest.mark.parametrize("found", mostly_slow(SIXTHS, fast=0, sample=len(FOUND[::6])), ids=lambda found: str(found[0]))
def test_what_was_found_once_stays_mended(found: tuple[int, Weather]) -> None:
    assert run(*found)


@pytest.mark.parametrize("seed", mostly_slow(range(1, 6), fast=0, sample=2))
def test_the_same_seed_decides_the_same(seed: int) -> None:
    assert simulate(seed) == simulate(seed)


def run(seed: int, weather: Weather = PLAIN) -> str:
    """Return the result of `simulate`. A failure names its seed: `simulate(SEED, weather)` runs it again."""
    try:
        return simulate(seed, weather)
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
