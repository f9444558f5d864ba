"""Parses the settings of a whole cluster (`--policy FILE`) into a `model.policy.Policy`.

backfill: conservative
backfillDepth: 1000
score: spread
topologies: [{levels: [zone, rack, kubernetes.io/hostname]}]
factors: {age: 1000, fairShare: 10000, maxAge: 7d, qos: 500, qosValues: {high: 1000}}
halfLife: 14d
billing: {cpu: 0.001, nvidia.com/gpu: 10}
"""

from __future__ import annotations

from typing import Any

from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.model.node import Topology
from phalanx.model.policy import Backfill, BackfillOrder, FairShareFormula, Policy, PriorityWeights, ScoringStrategy

_DEFAULT = Policy()
_FACTORS = PriorityWeights()


def read_policy(values: Any) -> Policy:
    """Return the policy; absent settings have the defaults of `Policy()`. Raises Misread."""
    said = Fields({} if values is None else values)
    policy = Policy(
        default_queue=said.text("defaultQueue", _DEFAULT.default_queue),
        backfill=said.choice("backfill", Backfill.EASY),
        backfill_order=said.choice("backfillOrder", BackfillOrder.QUEUE),
        backfill_depth=said.whole("backfillDepth", _DEFAULT.backfill_depth, least=0),
        score=said.choice("score", ScoringStrategy.PACK),
        topologies=read_topologies(said),
        factors=_factors(said.fields("factors")),
        fair_share=said.choice("fairShare", FairShareFormula.FAIR_TREE),
        half_life_s=said.seconds("halfLife", _DEFAULT.half_life_s),
        billing=said.weights("billing") if "billing" in said.values else _DEFAULT.billing,
    )
    said.value("billing")
    said.done()
    return policy


def read_topologies(said: Fields) -> tuple[Topology, ...]:
    """Return the field `topologies` of the settings. Raises Misread."""
    return tuple(_topology(one) for one in said.each("topologies"))


def _topology(said: Fields) -> Topology:
    levels = said.texts("levels")
    if not levels:
        raise Misread((*said.path, "levels"), "a topology has one level at least: node label keys, coarse to fine")
    if twice := [level for level in levels if levels.count(level) > 1]:
        raise Misread((*said.path, "levels"), f"{twice[0]!r} stands there twice")
    said.done()
    return Topology(levels=levels)


def _factors(said: Fields) -> PriorityWeights:
    found = PriorityWeights(
        age=said.number("age"),
        size=said.number("size"),
        fair_share=said.number("fairShare"),
        queue=said.number("queue"),
        qos=said.number("qos"),
        resources=said.weights("resources"),
        max_age_s=said.seconds("maxAge", _FACTORS.max_age_s),
        qos_values=said.weights("qosValues"),
        small_first=said.flag("smallFirst"),
        size_relative_to_time=said.flag("sizeRelativeToTime"),
        size_full_time_s=said.seconds("sizeFullTime", _FACTORS.size_full_time_s),
    )
    said.done()
    return found
