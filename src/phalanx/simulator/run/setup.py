"""A *setup* has all inputs of a simulation except the workload: a policy, queues, and a rate of pod creation.

A `flat` setup puts all jobs into one queue, and ignores the queues of the trace. Logs of parallel machines are
simulated with a flat setup. Other setups keep the queues of the trace. A queue that the trace names, but the setup does
not define, is created from a template (`of_each`) if the setup has one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from phalanx.model.policy import Backfill, BackfillOrder, Policy, ScoringStrategy
from phalanx.model.queue import Queue, QueueOrder
from phalanx.simulator.cluster.factory import Creation
from phalanx.simulator.readers.lines import TraceError
from phalanx.simulator.workload import Formula, Rounds

ONE = "default"
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    name: str
    policy: Policy
    queues: tuple[Queue, ...] = ()
    flat: bool = True
    of_each: Queue | None = None  # the template for queues that the trace names, but `queues` does not have
    about: str = ""
    rounds: Rounds | None = None  # the order of jobs in rounds (see `simulator.workload`); None if there are no rounds
    formula: Formula | None = None  # the formula of job priorities; None if jobs keep their own priorities
    creation: Creation | None = None  # the rate of pod creation; None if all pods are created at once


def one_queue(
    name: str,
    about: str,
    policy: Policy,
    *,
    order: QueueOrder = QueueOrder.FIFO,
    strict: bool = False,
    rounds: Rounds | None = None,
    formula: Formula | None = None,
) -> Setup:
    queue = Queue(name=ONE, order=order, strict=strict)
    return Setup(name=name, about=about, policy=policy, queues=(queue,), rounds=rounds, formula=formula)


def scored(name: str, about: str, score: ScoringStrategy) -> Setup:
    """Return a setup without backfill reservations. Its policy chooses nodes by the scoring strategy `score`."""
    return one_queue(name, about, Policy(default_queue=ONE, backfill=Backfill.GREEDY, score=score))


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
            "easy-learned",
            "EASY, the job backfilled first that is shortest by how long jobs like it ran",
            Policy(default_queue=ONE, backfill=Backfill.EASY, backfill_order=BackfillOrder.SHORTEST_LEARNED),
        ),
        one_queue(
            "conservative",
            "conservative backfilling: nobody who waits is delayed",
            Policy(default_queue=ONE, backfill=Backfill.CONSERVATIVE),
        ),
        one_queue("priority", "higher priority first, then EASY", EASY, order=QueueOrder.PRIORITY),
        one_queue(
            "saf",
            "smallest estimate times size first, then EASY (SAF, CCGRID'19)",
            EASY,
            order=QueueOrder.PRIORITY,
            formula=Formula.AREA,
        ),
        one_queue(
            "f1",
            "by log10(estimate) times size and when it came, then EASY (F1, SC'17)",
            EASY,
            order=QueueOrder.PRIORITY,
            formula=Formula.F1,
        ),
        scored("spread", "greedy, each pod on the emptiest node", ScoringStrategy.SPREAD),
        scored("fgd", "greedy, where fragmentation grows least (FGD, ATC'23)", ScoringStrategy.FRAGMENTATION),
        scored(
            "fewest-lost",
            "greedy, where fewest GPUs are lost to fragments or for want of cpu (ours)",
            ScoringStrategy.FEWEST_LOST,
        ),
        scored("best-fit", "greedy, where least cpu and GPUs are left", ScoringStrategy.BEST_FIT),
        scored("dot-product", "greedy, where what is free is least like what is asked", ScoringStrategy.DOT_PRODUCT),
        scored("device-packing", "greedy, shared GPUs first, then used nodes", ScoringStrategy.DEVICE_PACKING),
        scored("device-clustering", "greedy, beside pods that ask as many GPUs", ScoringStrategy.DEVICE_CLUSTERING),
        scored("random", "greedy, any node that fits", ScoringStrategy.RANDOM),
        one_queue(
            "srtf",
            "least remaining time first, preempting in rounds (Muri, SIGCOMM'22)",
            GREEDY,
            order=QueueOrder.PRIORITY,
            rounds=Rounds.TIME,
        ),
        one_queue(
            "srsf",
            "least remaining time times GPUs first, preempting in rounds (Muri, SIGCOMM'22)",
            GREEDY,
            order=QueueOrder.PRIORITY,
            rounds=Rounds.SERVICE,
        ),
        Setup(
            name="fair",
            about="queues of the trace share equally (weighted dominant share); whatever fits, starts",
            policy=Policy(default_queue=ONE, backfill=Backfill.GREEDY),
            queues=(Queue(name=ALL, order=QueueOrder.FAIR),),
            flat=False,
            of_each=Queue(name="", parent=ALL, order=QueueOrder.FIFO),
        ),
    )
}


# other names of built-in setups: the names of the scores in the paper about FGD
_ALIASES = {"gpu-packing": "device-packing", "gpu-clustering": "device-clustering"}


def built_in(name: str) -> Setup:
    """Return the built-in setup of this name or alias. Raises `TraceError`, which lists the valid names."""
    setup = BUILT_IN.get(_ALIASES.get(name, name))
    if setup is None:
        known = ", ".join(BUILT_IN)
        raise TraceError(
            f"there is no policy {name!r}: a file of one ends in .yaml, .yml, .json or .py; built in are {known}"
        )
    return replace(setup, name=name)
