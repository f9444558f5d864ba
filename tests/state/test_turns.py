"""The turns of crowds: what leaves a row is taken out later, and nobody sees the difference."""

from __future__ import annotations

from random import Random

from phalanx.model.job import Role
from phalanx.model.pod import Shape, amounts
from phalanx.state.classes import Gang, InternTable
from phalanx.state.pending.line import PLAIN, Bid, Entry, Kind, LineKey
from phalanx.state.pending.turns import Turns

INTERNED = InternTable()
SHAPES = [Shape(requests=amounts({"cpu": 1000 * cpu})) for cpu in range(1, 6)]
GANGS = [INTERNED.one(Role(name="worker", count=1, minimum=1, shape=shape)) for shape in SHAPES]
GANG = GANGS[0]


def line(queue: str, limit_s: float | None = None, gang: Gang = GANG) -> LineKey:
    return LineKey(int(Kind.JOB), 0, gang, queue, PLAIN._replace(limit_s=limit_s))


def first(job: str, arrival_s: float) -> Entry:
    return Entry(arrival_s, job, Bid(job))


def standing(turns: Turns) -> list[LineKey]:
    row = turns.of.get("", {}).get(GANG, [])
    assert not row or turns.stands(row[0])
    return [turn[1] for turn in row if turns.stands(turn)]


def test_whoever_comes_and_goes_the_lines_are_in_order() -> None:
    random, turns, arrivals = Random(3), Turns(), dict[LineKey, float]()
    for step in range(2000):
        key = line(f"queue-{random.randrange(40)}")
        if random.random() < 0.5:
            turns.drop(key)
            arrivals.pop(key, None)
        else:  # mostly the latest, at times one that was there before
            arrivals[key] = float(step) if random.random() < 0.7 else random.uniform(0, step)
            turns.put(key, 0.0, first(f"job-{step}", arrivals[key]))
        assert standing(turns) == sorted(arrivals, key=arrivals.__getitem__)
        assert len(turns.of.get("", {}).get(GANG, [])) <= 2 * len(arrivals)
        assert standing(turns.copy()) == standing(turns)


def test_a_job_may_come_back_to_its_place_in_another_line() -> None:
    """As one that is told anew with a time limit: its old turn, of the same place, may still be in the row."""
    turns, early, late = Turns(), line("early"), line("late")
    turns.put(early, 0.0, first("a", 1.0))
    turns.put(line("q"), 0.0, first("b", 2.0))
    turns.put(late, 0.0, first("c", 3.0))
    turns.drop(line("q"))
    turns.put(line("q", limit_s=60.0), 0.0, first("b", 2.0))
    assert standing(turns) == [early, line("q", limit_s=60.0), late]
    turns.drop(line("q", limit_s=60.0))
    turns.put(line("q"), 0.0, first("b", 2.0))
    assert standing(turns) == [early, line("q"), late]


def test_a_row_of_which_all_have_gone_is_no_more() -> None:
    turns = Turns()
    for at in range(5):
        turns.put(line(f"queue-{at}"), 0.0, first(f"job-{at}", float(at)))
    for at in (3, 1, 4, 0, 2):
        turns.drop(line(f"queue-{at}"))
    assert not turns.of


def test_the_crowds_of_an_arena_are_in_the_order_of_their_firsts() -> None:
    random, turns, arrivals = Random(5), Turns(), dict[LineKey, float]()
    for step in range(2000):
        key = line(f"queue-{random.randrange(6)}", gang=random.choice(GANGS))
        if random.random() < 0.5:
            turns.drop(key)
            arrivals.pop(key, None)
        else:
            arrivals[key] = random.uniform(0, step)
            turns.put(key, 0.0, first(f"job-{step}", arrivals[key]))
        firsts: dict[Gang, float] = {}
        for each, arrival_s in sorted(arrivals.items(), key=lambda item: item[1]):
            firsts.setdefault(each.gang, arrival_s)
        for book in (turns, turns.copy()):
            assert [(place[1], gang) for place, gang in book.fronts("")] == [(at, gang) for gang, at in firsts.items()]
