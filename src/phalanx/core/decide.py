"""Decide one scheduling cycle: read the cluster state, return a plan and what the next cycle should remember.

The loop calls `decide` after it has folded all new events. The plan lists which jobs start, which are preempted, and
why the others wait. The loop folds the plan into the state and hands it to the world. `Cycle` has the steps that
`decide` names.

- The cycle works on a draft, a view of the free capacity with an undo log. It changes no fact in the state. It may
  update caches in the state: which nodes match, how many pods they hold, which request class has a request. So only one
  thread may decide on a state at a time.
- Requests are tried in the order of `core.order.next_job`. A request that does not fit blocks the requests behind it
  only if its queue is strict, or if they would delay its backfill reservation.
- Equal requests of one queue form a request class. If its first request fails, no other request of the class is tried
  in this cycle.

Example: 4 of 8 GPUs are free. Job a (8 GPUs) is first, job b (2 GPUs) second. The plan has `Start(b)` and `Wait(a,
NoRoom)`."""

from __future__ import annotations

from phalanx.core.cycle import plan as conclude
from phalanx.core.cycle.intake import nominated, receive
from phalanx.core.cycle.preempt import excess
from phalanx.core.cycle.steps import Cycle
from phalanx.core.fold.memory import Decision
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster


def decide(cluster: Cluster, policy: Policy, now_s: float) -> Decision:
    """Return the plan of one cycle, and its memory. `now_s`: seconds since the epoch. If nominations have to be
    withdrawn, the plan only withdraws them."""
    if conclude.is_idle(cluster, now_s):
        return conclude.idle(cluster, now_s)
    cycle = Cycle(cluster, policy, now_s)

    # 0. Start nominated jobs whose victims have left. Invalid nominations are withdrawn first (rule R23).
    if cluster.nominated:
        nominated.start_nominated(cycle.state, cycle.preempting)
        if cycle.state.withdrawn:
            return conclude.withdrawals(cycle)

    # 0a. Queues that have used more than their limit for too long lose pods.
    if cluster.tree.trimmed:
        excess.enforce(cycle.state, lambda: cycle.preempting.context)

    # 1. Receive new requests, and requests whose waiting time is over: report a reason, or add them to a request class.
    for request in receive.newcomers(cycle.state):
        receive.receive(cycle.state, request)

    # 2. Try requests in order. A request class takes part if it may start by counting and by its limits.
    for candidate in cycle.candidates():
        # 3. List the offers of the queue tree: flavors and charges, each allowed or short of quota.
        offers, lacks = cycle.state.offers(candidate), []
        for offer in offers:
            # 4. Place the whole gang on the draft, or nothing.
            outcome = None if offer.short is not None else cycle.place(candidate, offer)
            if isinstance(outcome, list):
                # 5. Start it: charge its nodes and its queue, and continue with the next request of its class.
                cycle.grant(candidate, offer, outcome)
                break
            if outcome is not None:
                lacks.append((offer, outcome))
            if offer.flavors and cycle.prefers_preemption(candidate, offer) and cycle.make_room(candidate, [offer]):
                break
        else:
            # 6. Otherwise preempt other jobs, if the policy allows it and frees enough; nominate it to their nodes.
            if not cycle.make_room(candidate, offers):
                # 7. Otherwise report the reason to its request class.
                cycle.deny(candidate, offers, lacks)

    # 8. Return the plan, with the time of the next cycle, and what that cycle should know.
    decision = conclude.decision(cycle)
    cycle.state.close()
    return decision
