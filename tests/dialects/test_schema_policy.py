"""`dialects/schema/policy.py`: parses the settings of a whole cluster."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.schema.policy import read_policy
from phalanx.model.node import Topology
from phalanx.model.policy import Backfill, BackfillOrder, FairShareFormula, Policy, PriorityWeights, ScoringStrategy


def test_a_policy_is_read_whole() -> None:
    said = {
        "defaultQueue": "lab",
        "backfill": "conservative",
        "backfillOrder": "shortest",
        "backfillDepth": 7,
        "score": "fragmentation",
        "fairShare": "classic",
        "halfLife": "14d",
        "billing": {"cpu": 1},
        "topologies": [{"levels": ["zone", "rack"]}],
        "factors": {
            "age": 1,
            "size": 2,
            "fairShare": 3,
            "queue": 4,
            "qos": 5,
            "maxAge": "1d",
            "smallFirst": True,
            "sizeRelativeToTime": True,
            "resources": {"cpu": 6},
            "qosValues": {"high": 100},
        },
    }
    assert read_policy(said) == Policy(
        default_queue="lab",
        backfill=Backfill.CONSERVATIVE,
        backfill_order=BackfillOrder.SHORTEST,
        backfill_depth=7,
        score=ScoringStrategy.FRAGMENTATION,
        topologies=(Topology(levels=("zone", "rack")),),
        factors=PriorityWeights(
            age=1.0,
            size=2.0,
            fair_share=3.0,
            queue=4.0,
            qos=5.0,
            resources=(("cpu", 6.0),),
            max_age_s=86400.0,
            qos_values=(("high", 100.0),),
            small_first=True,
            size_relative_to_time=True,
        ),
        fair_share=FairShareFormula.CLASSIC,
        half_life_s=14 * 86400.0,
        billing=(("cpu", 1.0),),
    )
    assert read_policy(None) == read_policy({}) == Policy()


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"backfil": "easy"}, ("backfil",)),
        ({"topologies": [{"levels": []}]}, ("topologies", 0, "levels")),
        ({"topologies": [{"levels": ["a", "a"]}]}, ("topologies", 0, "levels")),
        ({"factors": {"qosValues": {"high": "much"}}}, ("factors", "qosValues", "high")),
    ],
)
def test_a_complaint_about_a_policy_knows_its_place(said: Any, path: tuple[str | int, ...]) -> None:
    with pytest.raises(Misread) as raised:
        read_policy(said)
    assert raised.value.path == path
