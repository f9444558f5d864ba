"""Decide one scheduling cycle: read the cluster state, return a plan and the memory for the next cycle.

The loop calls `decide` after it has folded all new events, that is, applied them to the cluster state. The plan lists
which jobs start, which are preempted, and why the others wait. The loop then folds the plan into the state, and passes
the plan to the *world*: the cluster or a simulation of it, which carries out plans and sends events. The steps that
`decide` calls are methods of `Cycle`.

- The cycle works on a draft, a view of the free capacity with an undo log. A cycle changes no fact in the state, but
  may update caches in the state: which nodes match a request, how many pods these nodes hold, and to which request
  class a request belongs. So only one thread may decide on a state at a time.
- Requests are tried in the order of `core.order.next_job`. A request that does not fit blocks a later request in only
  two cases: if their queue is strict, or if the start of the later request would delay the backfill reservation of the
  earlier request.
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
    must be withdrawn, the plan only withdraws these nominations."""
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

    # 1. Receive new requests, and requests whose waiting time is over: report a reason, or add them to a request class.
    for request in receive.newcomers(cycle.state):
        receive.receive(cycle.state, request)

    # 2. Try requests in order. A request class is a candidate if the nodes have enough in total, and if the limits and
    #    quotas of its queue allow its first request.
    for candidate in cycle.candidates():
        # 3. List the offers: the choices of flavors for the request, with the charge of each to the queue tree. For
        #    each offer, quota is either sufficient or short.
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
            # 6. Otherwise preempt other jobs, if that is allowed and frees enough, and nominate the job to the nodes
            #    that they leave.
            if not cycle.make_room(candidate, offers):
                # 7. Otherwise store the reason why the request does not start, for all requests of its class.
                cycle.deny(candidate, offers, lacks)

    # 8. Return the plan, the time of the next cycle, and the memory for that cycle.
    return conclude.decision(cycle)
