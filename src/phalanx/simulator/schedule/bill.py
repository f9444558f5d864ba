"""The bill: the price of the nodes of node groups, and how well these nodes were used."""

from __future__ import annotations

from math import fsum

from phalanx.simulator.schedule.schedule import Schedule
from phalanx.simulator.workload.workload import of_role

HOUR_S = 3600.0


def bill(schedule: Schedule) -> dict[str, float]:
    """Return the measures of the bill; empty if the cluster has no node groups.

    `bill`: the price of all nodes of groups, from arrival to removal. `node_hours`: the sum of these times.
    `nodes_added`: the number of nodes that arrived. `paid_use_ratio`: the amount of the counted resource that jobs held
    on these nodes, divided by the amount that was paid for (both times hours)."""
    workload = schedule.workload
    if not workload.groups:
        return {}
    hours = [(rental, (rental.end_s - rental.start_s) / HOUR_S) for rental in schedule.rentals]
    counted, unit = workload.counted, workload.unit
    paid = fsum(dict(rental.node.allocatable).get(counted, 0) / unit * time for rental, time in hours)
    return {
        "bill": round(fsum(rental.price_per_hour * time for rental, time in hours), 6),
        "node_hours": round(fsum(time for _, time in hours), 6),
        "nodes_added": len(hours),
        "paid_use_ratio": held_on_rentals(schedule) / paid if paid else 0.0,
    }


def held_on_rentals(schedule: Schedule) -> float:
    """Return the amount of the counted resource that jobs held on nodes of groups, times hours."""
    workload, found = schedule.workload, []
    rented = {rental.node.name for rental in schedule.rentals}
    for stint in schedule.stints:
        roles = schedule.fates[stint.task].task.job.roles
        each = [of_role(role, workload.counted, workload.device_bytes) / workload.unit for role in roles]
        held = fsum(each[placed.role] for placed in stint.placements if placed.node in rented)
        found.append(held * (stint.end_s - stint.start_s) / HOUR_S)
    return fsum(found)
