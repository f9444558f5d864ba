"""One cycle: from the book to a plan. The cycle is `decide`; `Cycle` has its steps.

It reads the state and thinks on a draft laid over it. It may write what is only remembered there, so that the next
cycle need not find it again (which nodes match, how many pods they hold, who is in which request class): never facts.
So one state is not to be decided on by two threads at once. Requests are taken strictly in order
(`core.order.next_job`), but one that finds no room does not hold up the next (work conservation): what is not started
is exactly what did not fit when its turn came. Requests that are alike are in one request class, and a request class
whose first fails is done for this cycle."""

from __future__ import annotations

from phalanx.core.cycle import plan as conclude
from phalanx.core.cycle.preempt import excess
from phalanx.core.cycle.steps import Cycle
from phalanx.model.plan import Plan
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster


def decide(cluster: Cluster, policy: Policy, now_s: float) -> Plan:
    """Return the plan of one cycle. `now_s`: seconds since the epoch. If nominations have to be withdrawn, the plan
    only withdraws them."""
    if conclude.is_idle(cluster, now_s):
        return Plan(wake_s=min(conclude.next_change_times_s(cluster, now_s, (), ()), default=None))
    cycle = Cycle(cluster, policy, now_s)

    # 0. Nominated jobs start where others have left. A nomination that cannot stand is withdrawn first (rule R23).
    cycle.intake.start_nominated()
    if cycle.preempting.withdrawn:
        return conclude.withdrawals(cycle)

    # 0a. Queues that have used more than their limit for too long lose pods.
    excess.enforce(cycle.state, lambda: cycle.preempting.context, cycle.preempting.actions)

    # 1. Whatever is new, or has rested long enough, is answered at once or gets its place in a request class.
    for request in cycle.intake.newcomers():
        cycle.intake.receive(request)

    # 2. Request classes that may start by counting, and by their limits, contend, each with its first request; the best
    # comes up.
    for key, request in cycle.contenders():
        # 3. The queue tree says in which ways it may start, and what stands against the others.
        offers, lacks = cycle.state.offers(key, request), []
        for offer in offers:
            # 4. It is placed whole, or nothing is taken.
            outcome = None if offer.short is not None else cycle.place(key, request, offer)
            if isinstance(outcome, list):
                # 5. It starts: its room and quota are taken, and the next of its request class contends.
                cycle.grant(key, request, offer, outcome)
                break
            if outcome is not None:
                lacks.append((offer, outcome))
            if cycle.prefers_preemption(key, offer) and cycle.make_room(key, request, [offer]):
                break
        else:
            # 6. It cannot: others give way, if it may push them and that is enough; then it is promised their room.
            if not cycle.make_room(key, request, offers):
                # 7. Else its request class is told why.
                cycle.deny(key, request, offers, lacks)

    # 8. The plan, and when to look again though nothing happens.
    plan = conclude.plan(cycle)
    cycle.close()
    return plan
