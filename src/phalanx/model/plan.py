"""What to do: the plan of one cycle. It is folded into the state at once, and then applied by a world.

Actions are named tuples: several are made for every job, at a third of the cost of a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from phalanx.model.job import Placement, Slot
from phalanx.model.reason import Reason
from phalanx.state.pending.cell_queue import CellKey, Request
from phalanx.state.pending.pending import Combination, Search


class Start(NamedTuple):
    """A queued job starts. `placements` has every role's minimum, and as many pods more as fit.

    In a queue with `gang=False` there are no placements: pods are placed one by one as they are `Opened`."""

    job: str
    attempt: int
    placements: tuple[Placement, ...]
    at_s: float = 0.0  # when it was decided, seconds since the epoch
    flavors: tuple[str, ...] = ()  # the flavor of each role's pods; empty: the queue names none
    limit_s: float | None = None  # it is stopped when it has run that long: its own limit, else its queue's


class Place(NamedTuple):
    """Open slots of a started job get their nodes."""

    job: str
    placements: tuple[Placement, ...]


class Wait(NamedTuple):
    """A job waits for another reason than before; of a started job: its open slots do."""

    job: str
    reason: Reason


class Preempt(NamedTuple):
    """A started job is preempted whole: it is stopped and waits again, with its age kept.

    What it holds stays charged until the world says that its pods are gone (`Refused`).

    `by`: the preemptor.
    `grace_s`: the job's pods have that long to end; None: as each pod says."""

    job: str
    attempt: int
    by: str
    reason: Reason
    grace_s: float | None = None


class Shrink(NamedTuple):
    """A started job releases slots above its minimum. What they hold stays charged until they are `Released`."""

    job: str
    slots: tuple[Slot, ...]
    by: str
    reason: Reason
    grace_s: float | None = None


class Nominate(NamedTuple):
    """A queued job, or open slots of a running one, are nominated for these nodes, which victims are leaving
    (nominatedNodeName of a pod, for a gang).

    The nodes are charged at once, so that nobody else is placed there. A nomination without placements withdraws the
    last one."""

    job: str
    placements: tuple[Placement, ...]
    flavors: tuple[str, ...] = ()
    until_s: float = 0.0  # taken back then, if the others have not left


Action: TypeAlias = Start | Place | Wait | Preempt | Shrink | Nominate

# The names of actions in recordings and metrics. They are stable, whatever the classes are called.
ACTION_NAMES: Final[Mapping[type[Action], str]] = {
    Start: "Start",
    Place: "Place",
    Wait: "Wait",
    Preempt: "Preempt",
    Shrink: "Shrink",
    Nominate: "Promise",
}


class Told(NamedTuple):
    """The message to a cell (`state.pending.cell_queue.ROOM` and its like), and why; `reason` None: as its class is."""

    told: int
    reason: Reason | None = None


class Findings(NamedTuple):
    """The findings of a decision about those who wait, taken in with the plan so that the next cycle costs less.

    Nothing is lost but time, and who is told what, if it is not folded. `version` is the state's at the time: what was
    found before the latest event is not taken in. `received`: requests that are in a cell now; `parked` ones wait for
    an event about themselves, `resting` ones for a time. `explained`: why classes find no room; `failed`: classes whose
    trial failed though counting found room. `first`: who has the first reservation, and since when (seconds).
    `searched`: searches for victims that found nobody; `put_off`: some are still to be made."""

    version: int
    received: tuple[Request, ...] = ()
    parked: tuple[Request, ...] = ()
    resting: tuple[tuple[Request, float], ...] = ()
    told: tuple[tuple[CellKey, Told], ...] = ()
    explained: tuple[tuple[Combination, Reason], ...] = ()
    failed: tuple[int, ...] = ()
    first: tuple[Request, float] | None = None
    searched: tuple[tuple[CellKey, Search], ...] = ()
    put_off: bool = False


class Plan(NamedTuple):
    """The plan of one cycle. `wake_s`: decide again then (seconds since the epoch) even if nothing happens; None: no
    need."""

    actions: tuple[Action, ...] = ()
    wake_s: float | None = None
    findings: Findings | None = None
