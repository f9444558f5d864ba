"""Decide one scheduling cycle: read the cluster state, return a plan and the memory for the next cycle.

The loop calls `decide` after it has folded all new events, that is, applied them to the cluster state. The plan lists
which jobs start, which are preempted, and why the others wait. The loop then folds the plan into the state, and passes
the plan to the *world*. The world is the cluster or a simulation of it; it carries out plans and sends events. The
steps that `decide` calls are methods of `Cycle`.

- The cycle works on a draft, a view of the free capacity with an undo log. A cycle only changes caches in the state:
  which nodes match a request, how many further pods fit on these nodes, and to which request class a request belongs.
  So only one thread may decide on a state at a time.
- Requests are tried in the order of `core.order.next_job`. A request that does not fit blocks a later request in only
  two cases. Either both are in the same strict queue, or the start of the later request would delay the backfill
  reservation of the earlier request.
- Equal requests of one queue form a request class. If the first request of a class fails, no other request of the class
  is tried in this cycle.

Example: 4 of 8 GPUs are free. Job a (8 GPUs) is first, job b (2 GPUs) second. The plan has `Start(b)` and `Wait(a,
NoRoom)`."""

from __future__ import annotations

from phalanx.core.cycle import plan as conclude
from phalanx.core.cycle.intake import nominated, receive
from phalanx.core.cycle.steps import Cycle
from phalanx.core.fold.memory import Decision
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster


def decide(cluster: Cluster, policy: Policy, now_s: float) -> Decision:
    """Return the plan of one cycle, and the memory for the next cycle. `now_s`: seconds since the epoch. If nominations
    must be withdrawn, the plan contains no other actions."""
    if conclude.is_idle(cluster, now_s):
        return conclude.idle(cluster, now_s)
    cycle = Cycle(cluster, policy, now_s)

    # 0. Start nominated jobs whose victims have left. Invalid nominations are withdrawn first (rule R23).
    if cluster.nominated:
        nominated.start_nominated(cycle.state, cycle.preempting)
        if cycle.state.withdrawn:
            return conclude.withdrawals(cycle)

    # 0a. Evict pods of queues that have exceeded their limit for longer than their settings permit.
    if cluster.tree.trimmed:
        cycle.preempting.evict_excess()

    # 1. Receive new requests, and requests whose timer has expired: add each one to a request class, or report why it
    # must wait.
    for request in receive.newcomers(cycle.state):
        receive.receive(cycle.state, request)

    # 2. Try requests in order. A request class is a candidate if the free amounts of all nodes together are enough, and
    # if the limits and the quota of its queue allow its first request.
    for candidate in cycle.candidates():
        # 3. List the offers for the request. An offer is a choice of flavors, with the charge to the queue. If quota
        # does not allow the charge, `offer.short` has the shortfall.
        offers, lacks = cycle.state.offers(candidate), []
        for offer in offers:
            # 4. Place the whole gang on the draft, or place no pod of it.
            outcome = None if offer.short is not None else cycle.place(candidate, offer)
            if isinstance(outcome, list):
                # 5. Start the request: charge its nodes and its queue, and continue with the next request of its class.
                cycle.grant(candidate, offer, outcome)
                break
            if outcome is not None:
                lacks.append((offer, outcome))
            if offer.flavors and cycle.prefers_preemption(candidate, offer) and cycle.make_room(candidate, [offer]):
                break
        else:
            # 6. Otherwise preempt other jobs, if this is allowed and frees enough capacity, and nominate the job to the
            # victims' nodes.
            if not cycle.make_room(candidate, offers):
                # 7. Otherwise deny all requests of the class, and store the reason why the request does not start.
                cycle.deny(candidate, offers, lacks)

    # 8. Return the plan, the time of the next cycle, and the memory for that cycle.
    return conclude.decision(cycle)
