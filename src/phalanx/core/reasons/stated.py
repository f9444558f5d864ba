"""The requested amounts as the jobs state them, for the texts and numbers of reasons.

The core counts at most `MAX_AMOUNT` of a resource for each pod. A reason states the amount that the user wrote."""

from __future__ import annotations

from phalanx.model.pod import Amount
from phalanx.state.classes import Demand, Gang


def stated_asks(demand: Demand) -> dict[str, int]:
    """Return the amounts that each pod of the demand requests: resource -> amount."""
    stated = dict(demand.shape.requests)
    return {resource: stated.get(resource, amount) for resource, amount in demand.asks}


def stated_total(gang: Gang) -> dict[str, int]:
    """Return the amounts that the minimums of all roles request together: resource -> amount."""
    found = dict[str, int]()
    for demand, minimum in zip(gang.demands, gang.minimums, strict=True):
        for resource, amount in stated_asks(demand).items():
            found[resource] = found.get(resource, 0) + amount * minimum
    return found


def stated_cost(gang: Gang, resource: str, cost: Amount) -> Amount:
    """Return the amount of `resource` that queues are charged for the minimums of all roles, as the job states
    it. `cost`: this amount as the core counts it, or the part of it that is compared with a limit."""
    return cost + stated_total(gang).get(resource, 0) - gang.asked.get(resource, 0)
