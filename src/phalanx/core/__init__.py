"""The scheduling core: functions from the cluster state to a plan. `decide.decide` runs one cycle; the whole function
fits on one screen.

The core reads no clock, no file and no network. `fold` applies events and actions to the state. The other parts of the
core only read the state. During a cycle, the other parts change two temporary objects. A `Draft` has the free capacity
of the nodes. A `QuotaLedger` has the amounts that jobs are charged in the queue tree. Both have an undo log. After a
failed attempt, the cycle uses it to undo the changes of the attempt.

Parts, lowest first:

    fold/        apply events and actions to the state
    quota/       whether the queue tree allows a job to start, and on which flavors
    order/       which job is next
    placement/   the nodes of a gang
    backfill/    reservations, and the jobs that start without delaying them
    preemption/  which jobs a job may preempt, and a set of victims that frees enough
    reasons/     why a job waits, with numbers
    cycle/       one cycle: the steps that `decide` names
    decide       one cycle: from the cluster state to a plan"""
