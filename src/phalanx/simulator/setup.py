"""One way to schedule, with all that the simulator needs of it: a policy, its queues, and what it is told of run times.

`flat` setups put every job into one queue, whatever queue the trace names: that is how a log is replayed. Others keep
the trace's names, and the queues that nobody has described are made as children of the root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.model.policy import Backfill, BackfillOrder, Policy, Score
from phalanx.model.queue import Order, Queue
from phalanx.simulator.readers.lines import TraceError

ONE = "default"
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    name: str
    policy: Policy
    queues: tuple[Queue, ...] = ()
    flat: bool = True
    of_each: Queue | None = None  # what a queue that the trace names and `queues` does not is made like
    about: str = ""


def one_queue(name: str, about: str, policy: Policy, *, order: Order = Order.FIFO, strict: bool = False) -> Setup:
    return Setup(name=name, about=about, policy=policy, queues=(Queue(name=ONE, order=order, strict=strict),))


GREEDY = Policy(default_queue=ONE, backfill=Backfill.GREEDY)
EASY = Policy(default_queue=ONE, backfill=Backfill.EASY)

BUILT_IN: Mapping[str, Setup] = {
    setup.name: setup
    for setup in (
        one_queue("fifo", "first come, first served: nobody overtakes", GREEDY, strict=True),
        one_queue("greedy", "first come, first served; whatever fits, starts", GREEDY),
        one_queue("easy", "EASY backfilling: the first that waits is not delayed", EASY),
        one_queue(
            "easy-sjbf",
            "EASY, shortest estimate backfilled first",
            Policy(default_queue=ONE, backfill=Backfill.EASY, backfill_order=BackfillOrder.SHORTEST),
        ),
        one_queue(
            "conservative",
            "conservative backfilling: nobody who waits is delayed",
            Policy(default_queue=ONE, backfill=Backfill.CONSERVATIVE),
        ),
        one_queue("priority", "higher priority first, then EASY", EASY, order=Order.PRIORITY),
        one_queue(
            "spread",
            "greedy, each pod on the emptiest node",
            Policy(default_queue=ONE, backfill=Backfill.GREEDY, score=Score.SPREAD),
        ),
        one_queue(
            "fgd",
            "greedy, where fragmentation grows least (FGD, ATC'23)",
            Policy(default_queue=ONE, backfill=Backfill.GREEDY, score=Score.FRAGMENTATION),
        ),
        Setup(
            name="fair",
            about="queues of the trace share equally (weighted dominant share); whatever fits, starts",
            policy=Policy(default_queue="", backfill=Backfill.GREEDY),
            queues=(Queue(name=ALL, order=Order.FAIR),),
            flat=False,
            of_each=Queue(name="", parent=ALL, order=Order.FIFO),
        ),
    )
}


def built_in(name: str) -> Setup:
    """Raises `TraceError`, naming those that there are."""
    setup = BUILT_IN.get(name)
    if setup is None:
        known = ", ".join(BUILT_IN)
        raise TraceError(f"there is no policy {name!r}: it is neither a file nor one of {known}")
    return setup
