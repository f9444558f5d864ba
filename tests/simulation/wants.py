"""Draw the constraints that pods and gangs of a seed have besides amounts: topology, affinity and anti-affinity, parts
of devices, groups of roles. A seed draws its *themes*. Most seeds have few themes, so that small worlds still start
their jobs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from phalanx.model.job import Group, Role
from phalanx.model.node import Device, Node, SliceLayer, Taint, Topology, TopologyRequest
from phalanx.model.pod import (
    DeviceShare,
    HostPort,
    Operator,
    PodAffinityTerm,
    Requirement,
    Shape,
    Toleration,
    TopologySpread,
    amounts,
)

LEVELS = ("zone", "rack", "host")
TOPOLOGY = Topology(levels=LEVELS)
THEMES = ("close", "groups", "devices", "company", "flavors", "reservations")


class Wants:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.themes = {theme for theme in THEMES if random.random() < 0.3}

    def a_node(self, name: str) -> Node:
        random = self.random
        room = {
            "cpu": random.choice([2000, 4000, 8000]),
            "memory": random.choice([4, 8, 16]),
            "pods": random.choice([3, 110]),
        }
        room["gpu"] = random.choice([0, 0, 2])
        taints = (Taint("gpu", "yes"),) if room["gpu"] and random.random() < 0.5 else ()
        labels = {"zone": random.choice("ab"), "rack": random.choice("12"), "host": name}
        if random.random() < 0.1:
            del labels[random.choice(LEVELS)]
        if "flavors" in self.themes:
            labels["class"] = random.choice(["solid", "spot"])
            if labels["class"] == "spot" and random.random() < 0.5:
                taints = (*taints, Taint("spot", "yes"))
        named = bool(room["gpu"]) and "devices" in self.themes
        devices = tuple(Device(name=f"g{at}", resource="gpu") for at in range(2)) if named else ()
        return Node(
            name=name, allocatable=amounts(room), labels=tuple(sorted(labels.items())), taints=taints, devices=devices
        )

    def a_shape(self) -> Shape:
        random = self.random
        asks = {"cpu": random.choice([0, 500, 1000, 2000]), "memory": random.choice([0, 1, 2, 6])}
        asks["gpu"] = random.choice([0, 0, 0, 1])
        share = None
        if "devices" in self.themes and random.random() < 0.4:
            share, asks["gpu"] = DeviceShare(resource="gpu", milli=random.choice([250, 500, 700])), 0
        affinity = ()
        if random.random() < 0.15:
            affinity = ((Requirement("zone", random.choice([Operator.IN, Operator.NOT_IN]), ("a",)),),)
        shape = Shape(
            requests=amounts(asks),
            selector=(("zone", random.choice("ab")),) if random.random() < 0.2 else (),
            affinity=affinity,
            tolerations=(Toleration("gpu", "Exists"),) if asks["gpu"] or share or random.random() < 0.2 else (),
            share=share,
        )
        return self.in_company(shape) if "company" in self.themes and random.random() < 0.5 else shape

    def in_company(self, shape: Shape) -> Shape:
        """Return the shape with a label, and perhaps an affinity, an anti-affinity, a spread or a host port."""
        random, domain, own = self.random, self.random.choice(LEVELS), self.random.choice("xy")
        app = (Requirement("app", Operator.IN, (random.choice("xy"),)),)
        shape = replace(shape, labels=(("app", own),), namespace="n")
        match random.randrange(6):
            case 0:
                return replace(shape, away=(PodAffinityTerm(domain, app),))
            case 1:
                return replace(shape, away=(PodAffinityTerm(domain, app, weight=10),))
            case 2:
                # Use an affinity to the pod's own label. Pods with another label might never start, so the job could
                # block others.
                return replace(shape, near=(PodAffinityTerm(domain, (Requirement("app", Operator.IN, (own,)),)),))
            case 3:
                return replace(shape, spread=(TopologySpread(domain, random.choice([1, 2]), app),))
            case 4:
                return replace(shape, ports=(HostPort(random.choice([80, 81])),))
            case _:
                return shape

    def gang_options(self, roles: tuple[Role, ...]) -> tuple[tuple[Role, ...], dict[str, Any]]:
        """Return the roles, perhaps in groups and close to each other, and further options of the job."""
        random, options = self.random, dict[str, Any]()
        if "groups" in self.themes and len(roles) > 1 and random.random() < 0.6:
            outer = Group(name="outer", minimum=random.choice([None, 1]), closeness=self.closeness())
            inner = Group(name="inner", parent="outer", closeness=self.closeness())
            options["groups"] = (outer, inner)
            roles = (replace(roles[0], group="outer"), *(replace(role, group="inner") for role in roles[1:]))
        if "close" in self.themes and random.random() < 0.5:
            options["closeness"] = self.closeness()
        if "close" in self.themes and random.random() < 0.2:
            roles = (replace(roles[0], closeness=self.closeness()), *roles[1:])
        return roles, options

    def closeness(self) -> TopologyRequest | None:
        random = self.random
        if "close" not in self.themes:
            return None
        level = random.choice(LEVELS[:2])
        near = TopologyRequest(level=level, required=random.random() < 0.6, balanced=random.random() < 0.3)
        if random.random() < 0.2:
            finer = random.choice(LEVELS[LEVELS.index(level) + 1 :])
            inner = SliceLayer(random.choice([1, 2]), finer)
            between = [SliceLayer(2 * inner.pods, at) for at in LEVELS[LEVELS.index(level) + 1 : LEVELS.index(finer)]]
            near = replace(near, slices=(*between, inner))
        return random.choice([None, near])
