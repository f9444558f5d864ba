"""Why not, for gangs that are more than room: no domain is large enough, or the description is no gang at all."""

from __future__ import annotations

from phalanx.core.placement.packing import NearestDomain, PlacementShortfall
from phalanx.model.amount import format_amount
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.classes import Gang


def invalid(gang: Gang) -> Reason:
    """What is wrong with its roles and groups."""
    return Reason(code=ReasonCode.INVALID, text=gang.error)


def no_domain(gang: Gang, nearest: NearestDomain) -> Reason:
    """All nodes together would hold it, but no domain does: not now; or not even if nothing ran, or there is none."""
    what = f"all {nearest.wanted} pods" if nearest.wanted > 1 else "the pod"
    if len(gang.roles) > 1:
        what += f" of {nearest.unit}" if nearest.unit else " of the job"
    if nearest.slices is not None:
        what += " in slices of {} per {}".format(*nearest.slices)
    code, numbers = ReasonCode.NO_DOMAIN, {"level": nearest.level, "domains": nearest.domains, "pods": nearest.wanted}
    if not nearest.domains:
        code = ReasonCode.NEVER_FITS
        text = f"{what} must share a domain of {nearest.level}, but no node has that label and those of coarser levels"
    elif nearest.empty < nearest.wanted:
        code = ReasonCode.NEVER_FITS
        text = f"no domain of {nearest.level} could ever hold {what}; the largest of {nearest.domains} holds "
        text += f"{nearest.empty} when empty"
    elif nearest.holds >= nearest.wanted:
        text = f"no domain of {nearest.level} holds {what} as they are to be placed inside of it"
    elif not nearest.holds:
        text = f"no domain of {nearest.level} holds {what} now, nor any of them, though the nodes together would"
    else:
        text = f"no domain of {nearest.level} holds {what} now, though the nodes together would; the best of "
        text += f"{nearest.domains}, {nearest.name}, holds {nearest.holds}"
    numbers |= {"domain": nearest.name, "holds": nearest.holds, "holds_when_empty": nearest.empty}
    return Reason(code=code, text=text, numbers=numbers, more_nodes_help=True)


def no_capacity_left(gang: Gang, lack: PlacementShortfall) -> Reason:
    """Of empty nodes: how many pods they take, and what the next one meets."""
    demand, role, left = gang.demands[lack.role], gang.roles[lack.role], dict(lack.left)
    missing = [
        f"{format_amount(name, left[name])} of the {format_amount(name, ask)} {name}"
        for name, ask in demand.asks
        if ask > left[name]
    ]
    which = f" of role {role.name}" if role.name else ""
    text = f"{lack.placed} of {lack.wanted} pods find a place; for the next{which}, "
    text += (
        f"no node has more than {' and '.join(missing)} asked" if missing else "no node has all that it asks at once"
    )
    numbers = {"placed": lack.placed, "pods": lack.wanted, "role": role.name, "left_on_one_node": left}
    return Reason(
        code=ReasonCode.NO_ROOM, text=text, numbers=numbers | {"asked_per_pod": dict(demand.asks)}, more_nodes_help=True
    )
