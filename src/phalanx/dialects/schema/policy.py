"""Parse the settings of a whole cluster (`--policy FILE`), flavors and reservations.

`read_policy` reads a policy file such as this one:

backfill: conservative
backfillDepth: 1000
score: spread
topologies: [{levels: [zone, rack, kubernetes.io/hostname]}]
factors: {age: 1000, fairShare: 10000, maxAge: 7d, qos: 500, qosValues: {high: 1000}}
halfLife: 14d
billing: {cpu: 0.001, nvidia.com/gpu: 10}

`read_flavor` and `read_reservation` read the `spec` of a Flavor or Reservation (`phalanx.dev/v1`), from the API server
or from a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.dialects.schema.fields import Fields, Misread, Path, moment_s
from phalanx.model.node import Flavor, Reservation, Topology
from phalanx.model.pod import Toleration
from phalanx.model.policy import Backfill, BackfillOrder, FairShareFormula, Policy, PriorityWeights, ScoringStrategy

_DEFAULT = Policy()
_FACTORS = PriorityWeights()


def read_policy(values: object) -> Policy:
    """Return the policy. Settings that are absent have the defaults of `Policy()`. Raise Misread if a setting is
    invalid."""
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
    """Return the topologies in the field `topologies` of a policy. Raise Misread if one is invalid."""
    return tuple(_topology(one) for one in said.each("topologies"))


def _topology(said: Fields) -> Topology:
    levels = said.texts("levels")
    if not levels:
        raise Misread(
            (*said.path, "levels"), "a topology must have at least one level: node label keys, from coarse to fine"
        )
    if twice := [level for level in levels if levels.count(level) > 1]:
        raise Misread((*said.path, "levels"), f"{twice[0]!r} is listed twice")
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


_OPERATORS, _EFFECTS = ("Equal", "Exists"), ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def read_flavor(name: str, spec: object) -> Flavor:
    """Return the flavor with this spec. Raise Misread if a field is invalid."""
    said = Fields(spec, ("spec",))
    found = Flavor(
        name=name,
        labels=said.pairs("labels"),
        tolerations=tuple(_toleration(entry) for entry in said.each("tolerations")),
    )
    said.done()
    return found


def _toleration(said: Fields) -> Toleration:
    found = Toleration(
        key=said.text("key"),
        operator=said.text("operator", "Equal"),
        value=said.text("value"),
        effect=said.text("effect"),
    )
    said.done()
    if found.operator not in _OPERATORS:
        raise Misread((*said.path, "operator"), f"{found.operator!r} is not one of {', '.join(_OPERATORS)}")
    if found.effect not in _EFFECTS:
        raise Misread((*said.path, "effect"), f"{found.effect!r} is not one of {', '.join(_EFFECTS[1:])}")
    if not found.key and found.operator != "Exists":
        raise Misread((*said.path, "key"), "without a key (every taint is tolerated), the operator must be Exists")
    return found


def read_reservation(name: str, spec: object, *, moment: Callable[[Any, Path], float] = moment_s) -> Reservation:
    """Return the reservation. `moment`: a function that parses `start` and `end` into seconds since the epoch; the
    default function reads RFC 3339. Raise Misread if a field is invalid."""
    said = Fields(spec, ("spec",))
    start_s, end_s = (moment(said.value(field), ("spec", field)) for field in ("start", "end"))
    if end_s <= start_s:
        raise Misread(("spec", "end"), "it ends before it begins: write a later time")
    found = Reservation(
        name=name,
        start_s=start_s,
        end_s=end_s,
        nodes=said.texts("nodes"),
        users=said.texts("users"),
        groups=said.texts("groups"),
        queues=said.texts("queues"),
        magnetic=said.flag("magnetic"),
    )
    said.done()
    if not found.nodes:
        raise Misread(("spec", "nodes"), "it reserves no nodes: name at least one")
    return found
