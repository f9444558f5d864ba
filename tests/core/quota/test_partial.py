"""Which groups are left out of a gang that can do with fewer, where quota does not allow all of it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from phalanx.core.decide import decide
from phalanx.core.quota import partial
from phalanx.core.quota.partial import PartialAdmission
from phalanx.model.event import QueueSeen
from phalanx.model.job import Group, Job, Role
from phalanx.model.plan import Start
from phalanx.model.pod import Shape, amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, Quota
from phalanx.state.classes import Gang, InternTable
from tests.core.builders import cluster, node

ASKS = st.tuples(st.integers(0, 5), st.integers(0, 5))
CEILINGS = st.tuples(st.integers(0, 9), st.integers(0, 9))


def replicas(asks: Sequence[tuple[int, int]], minimum: int) -> Gang:
    """Return a gang with one group of roles. `asks`: each role's request of a and b. `minimum`: how many of the roles
    must start."""
    return InternTable().gang(tuple(map(replica, range(len(asks)), asks)), (Group(name="any", minimum=minimum),))


def replica(at: int, asks: tuple[int, int]) -> Role:
    shape = Shape(requests=amounts(dict(zip("ab", asks, strict=True))))
    return Role(name=f"r{at}", count=1, minimum=1, shape=shape, group="any")


def within(asks: Sequence[tuple[int, int]], kept: frozenset[int], ceilings: tuple[int, int]) -> bool:
    return all(sum(asks[at][resource] for at in kept) <= ceilings[resource] for resource in (0, 1))


@given(st.lists(ASKS, min_size=2, max_size=6), st.integers(1, 3), CEILINGS)
def test_what_is_left_out_is_in_the_way_and_every_member_has_its_chance(
    asks: list[tuple[int, int]], minimum: int, ceilings: tuple[int, int]
) -> None:
    minimum = min(minimum, len(asks) - 1)
    everybody = frozenset(range(len(asks)))
    assume(not within(asks, everybody, ceilings))
    found = list(
        partial.partial_admissions(replicas(asks, minimum), lambda way: within(asks, everybody - way.roles, ceilings))
    )
    kept = [everybody - way.roles for way in found]
    assert all(len(each) >= minimum for each in kept)
    allowed = [each for each in kept if within(asks, each, ceilings)]
    for each in allowed:
        assert not [at for at in everybody - each if within(asks, each | {at}, ceilings)]
    if minimum == 1:
        alone = {at for at in everybody if within(asks, frozenset({at}), ceilings)}
        alike = {asks[at] for each in allowed for at in each}
        assert {asks[at] for at in alone} == alike


def test_what_cannot_be_had_even_so_is_told_as_the_least() -> None:
    gang = replicas([(1, 0), (2, 0), (3, 0)], 2)

    def never(way: PartialAdmission) -> bool:
        return False

    assert {way.pods for way in partial.partial_admissions(gang, never)} == {(1, 1, 0), (1, 0, 1)}
    assert partial.minimum_admission(gang, never).pods == (1, 1, 0)


def test_of_a_hundred_replicas_as_many_start_as_quota_allows() -> None:
    quota = Quota(flavor="", limit=(("cpu", 70),))
    roles = tuple(
        Role(name=f"r{at}", count=1, minimum=1, shape=Shape(requests=(("cpu", 10),)), group="any") for at in range(100)
    )
    serve = Job(id="serve", queue="q", roles=roles, groups=(Group(name="any", minimum=1),))
    book = cluster(QueueSeen(Queue(name="q", quotas=(quota,))), node("a", cpu=10_000, pods=1000), serve)
    (start,) = decide(book, Policy(), 0.0).actions
    assert isinstance(start, Start)
    assert len(start.placements) == 7
