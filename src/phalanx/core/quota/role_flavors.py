"""The flavors that the roles of a gang may get.

A role gets one flavor of each resource group of which it requests a resource. Its pods run on nodes of all these
flavors. A flavor suits a role if its pods tolerate the flavor's taints, and if the flavor's labels match their
selector and required affinity. Only labels that the flavor has are compared (Kueue's rule); placement checks the
others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product

from phalanx.model.node import Flavor, joined_name, taint_text
from phalanx.model.pod import Operator, Shape
from phalanx.state.classes import Demand, Gang
from phalanx.state.nodes.pod_index import requirement_holds
from phalanx.state.queues.quota import ResourceGroup

COMBINATIONS = 64  # the most combinations of flavors that are tried for a gang
COMPARED = frozenset(Operator) - {Operator.GT, Operator.LT}


def combinations(
    known: Mapping[str, Flavor], groups: tuple[ResourceGroup, ...], gang: Gang
) -> Iterator[tuple[str, ...]]:
    """Yield the flavors of each role (joined), in the queue's order; at most `COMBINATIONS`."""
    return islice(product(*(choices(known, groups, demand) for demand in gang.demands)), COMBINATIONS)


def choices(known: Mapping[str, Flavor], groups: tuple[ResourceGroup, ...], demand: Demand) -> list[str]:
    """Return the flavors that a role may get, in the queue's order: one of each group, joined."""
    asked = [suitable_flavors(known, group, demand) for group in groups_asked(groups, demand)]
    return [joined_name(each) for each in product(*asked)]


def suitable_flavors(known: Mapping[str, Flavor], group: ResourceGroup, demand: Demand) -> tuple[str, ...]:
    """Return the flavors of the group that suit the role, in the queue's order. If none does, return all of them; such
    a job does not contend."""
    suit = tuple(name for name in group.flavors if not why_unsuitable(known.get(name), demand.shape))
    return suit or group.flavors


def groups_asked(groups: tuple[ResourceGroup, ...], demand: Demand) -> list[ResourceGroup]:
    """Return the groups of which the role requests a resource."""
    return [group for group in groups if any(group.covers(resource) for resource, _ in demand.costs)]


def why_unsuitable(flavor: Flavor | None, shape: Shape) -> str:
    """Return why such pods may not get the flavor, as in "flavor x …"; empty if they may."""
    if flavor is None:
        return ""
    if taint := flavor.untolerated(shape):
        return f"has the taint {taint_text(taint)}, which they do not tolerate"
    labels = dict(flavor.labels)
    for key, value in shape.selector:
        if key in labels and labels[key] != value:
            return f"is not of their selector {key}={value}"
    terms = [[each for each in term if each.key in labels and each.operator in COMPARED] for term in shape.affinity]
    if terms and not any(all(requirement_holds(labels.get(each.key), each) for each in term) for term in terms):
        return "is not of their required node affinity"
    return ""
