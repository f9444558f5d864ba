"""Who sleeps and would be next: in order whoever comes and goes, and found without reading those that may be drawn."""

from __future__ import annotations

from random import Random

from phalanx.model.job import Role
from phalanx.model.pod import Shape, amounts
from phalanx.state.classes import InternTable
from phalanx.state.pending.line import Bid, Entry, Kind, LineKey
from phalanx.state.pending.sleepers import Place, Sleepers
from phalanx.state.pending.turns import Turns

GANG = InternTable().one(Role(name="worker", count=1, minimum=1, shape=Shape(requests=amounts({"cpu": 1000}))))


def line(number: int) -> LineKey:
    return LineKey(int(Kind.JOB), 0, GANG, f"queue-{number}")


def falls_asleep(turns: Turns, sleepers: Sleepers, key: LineKey, arrival_s: float, *, in_crowd: bool) -> Place:
    """As the book does it: its turn first, then its place."""
    place = (0.0, arrival_s, int(Kind.JOB), key.queue)
    if in_crowd:
        turns.put(key, 0.0, Entry(arrival_s, key.queue, Bid(key.queue)))
    else:
        turns.drop(key)
    sleepers.sleep(key, place, held=False)
    return place


def wakes_for_good(turns: Turns, sleepers: Sleepers, key: LineKey) -> None:
    turns.drop(key)
    sleepers.forget(key)


def best(sleepers: Sleepers, count: int, *, all_drawn: bool = False) -> list[LineKey]:
    return list(sleepers.best((), count, lambda key: False, lambda arena: all_drawn))


def test_whoever_comes_and_goes_the_best_are_found_in_order() -> None:
    random, turns, places, crowded = Random(5), Turns(), dict[LineKey, Place](), dict[LineKey, bool]()
    sleepers = Sleepers(turns)
    for step in range(1500):
        key = line(random.randrange(30))
        if random.random() < 0.4:
            wakes_for_good(turns, sleepers, key)
            places.pop(key, None)
        else:  # at times in the same place, and in a crowd now or no more
            arrival_s = places[key][1] if key in places and random.random() < 0.5 else float(step)
            crowded[key] = random.random() < 0.5
            places[key] = falls_asleep(turns, sleepers, key, arrival_s, in_crowd=crowded[key])
        true = sorted(places, key=places.__getitem__)
        assert best(sleepers, 3) == true[:3]
        assert best(sleepers, 3, all_drawn=True) == [key for key in true if not crowded[key]][:3]
        assert best(sleepers.copy(turns.copy()), 40) == true


def test_lines_of_crowds_that_may_all_be_drawn_are_not_read() -> None:
    turns = Turns()
    sleepers = Sleepers(turns)
    for number in range(500):
        falls_asleep(turns, sleepers, line(number), float(number), in_crowd=True)
    falls_asleep(turns, sleepers, line(500), 500.0, in_crowd=False)
    read = list[LineKey]()
    found = sleepers.best((), 1, lambda key: bool(read.append(key)), lambda arena: True)
    assert list(found) == read == [line(500)]
