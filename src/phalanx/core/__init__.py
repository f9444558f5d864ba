"""The scheduler: functions from the cluster's state to a plan. `decide.decide` is one cycle, on one screen.

Nothing here reads a clock, a file or a network. `fold` takes events and actions into the state; all else reads it and
thinks on a `Draft` of the nodes and a `QuotaLedger` of the queue tree, both with an undo log.

Rooms, lowest first:

    fold/        events and actions, into the state
    quota/       may it start, by the queue tree; on which flavors
    order/       who is next
    placement/   on which nodes
    backfill/    who has a reservation, and who may start beside it
    preemption/  whom a job may stop, and which set of them is the least
    reasons/     why a job waits, with numbers
    cycle/       one cycle: the steps that `decide` names
    decide       one cycle: from the cluster's state to a plan
"""
