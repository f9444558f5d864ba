"""Decide which jobs a pending job may preempt, and choose a sufficient set of victims.

The rules are Kueue's (withinClusterQueue, reclaimWithinCohort, fair sharing). Before any job is stopped, the search
removes the victims from the draft (the free capacity while a cycle decides) and checks whether the pending job then
fits. The preemptor is nominated to the nodes of the victims, and starts when the victims have left.

Parts, lowest first:

    context        the input of a search for victims
    policy         which jobs a job may preempt
    nomination     nodes that are charged to a job while its victims leave them
    victims        the cheapest set of candidates that frees enough, on columns
    candidates     the pods and gangs that one search may evict
    victim_sets    small pools of candidates: every set is tried for the fairest and cheapest
    search         find victims, try them on the draft, restore candidates that are not needed
    consolidation  move running jobs instead of stopping them
    guard          preemption must not delay a reservation"""
