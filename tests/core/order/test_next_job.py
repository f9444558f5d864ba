"""Equal requests share a request class. After the first has started, the next one has its own place in the order,
however the request classes are put in order (rule R6)."""

from __future__ import annotations

import pytest

from phalanx.core.fold.fold import fold
from phalanx.loop import step
from phalanx.model.plan import Start
from phalanx.state.cluster import Cluster
from tests.reference.replay import Unmoved, read_turns

WORLD = """
node n1 cpu=7
node n2 cpu=3
queue q reclaim=any
queue strict strict order=fifo
queue other
job wide queue=q pods=3 cpu=3 at=1
job first queue={queue} pods=4 cpu=1 at=2
adopted runs#1 running queue=q pods=2 cpu=1 at=3 started=3 worker/0@n2 worker/1@n1
job between queue={queue} cpu=1 at=4
job second queue={queue} pods=4 cpu=1 at=5
{fillers}
cycle at=6
"""


@pytest.mark.parametrize("fillers", [0, 80])
@pytest.mark.parametrize("queue", ["q", "strict"])
def test_a_request_between_two_equal_ones_comes_before_the_second(queue: str, fillers: int) -> None:
    many = "\n".join(f"job f{number} queue=q pods=3 cpu={2.5 + number / 1000:.3f} at=7" for number in range(fillers))
    (turn,), policy = read_turns(WORLD.format(queue=queue, fillers=many))
    cluster = Cluster()
    fold(cluster, turn.events)
    plan = step(cluster, (), policy, turn.now_s, Unmoved())
    assert [each.job for each in plan.actions if isinstance(each, Start)] == ["first", "between"]
