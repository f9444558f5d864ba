"""Whom a job may stop to start itself, and which of them are enough.

The rules are Kueue's (withinClusterQueue, reclaimWithinCohort, fair sharing). Victims are tried on the draft before
anyone is stopped; the preemptor is nominated for their nodes and starts when they have left.

Rooms, lowest first:

    context        what a search for victims looks at
    policy         whom a job may preempt
    nomination     nodes that victims are leaving, kept for the job that they leave them to
    victims        the cheapest set of candidates that makes room, on columns
    candidates     the pods and gangs that could go, in one search
    victim_sets    of few candidates, every set tried: the fairest, the cheapest
    search         find victims, try them on the draft, put back those that are not needed
    consolidation  move running jobs instead of stopping them
    guard          preemption must not delay a reservation
"""
