"""The reason of a constrained pod: nodes have capacity, but a filter rejects each of them.

The numbers are those of the last placement, at the pod that found no node. So they count the gang's other pods already.
"""

from __future__ import annotations

from phalanx.core.placement.draft import Draft
from phalanx.core.placement.packing import PlacementShortfall
from phalanx.model.reason import Reason, ReasonCode
from phalanx.state.classes import Gang


def filtered_out(draft: Draft, gang: Gang, shortfall: PlacementShortfall) -> Reason | None:
    """Return the reason if there were nodes with capacity for the pod that found no node, but filters rejected all of
    them; otherwise None."""
    found, failed = draft.objections.get(gang.demands[shortfall.role], (0, ()))
    if not found or draft.ordinary(gang.demands[shortfall.role]):
        return None
    role = gang.roles[shortfall.role]
    placed = f"placed {shortfall.placed} of {shortfall.wanted} pods; " if shortfall.wanted > 1 else ""
    next_pod = ("the next pod" if placed else "the pod") + (f" of role {role.name}" if len(gang.roles) > 1 else "")
    some = "1 node has" if found == 1 else f"{found} nodes have"
    listed = ", ".join(f"{count} {text if count > 1 else singular(text)}" for text, count in failed)
    return Reason(
        code=ReasonCode.PLACEMENT_RULES,
        text=f"{placed}{some} room for {next_pod}, but {listed}",
        numbers={"placed": shortfall.placed, "pods": shortfall.wanted, "role": role.name, "with_room": found}
        | {"failed": dict(failed)},
        more_nodes_help=True,
    )


def singular(text: str) -> str:
    """Return the text for one node: `are not ready` becomes `is not ready`."""
    for many, one in (("are", "is"), ("do", "does"), ("have", "has")):
        if text.startswith((f"{many} ", f"{many},")):
            return one + text.removeprefix(many)
    return text
