"""Run one cycle: this package has the steps that `decide` calls, and stores the decisions of the cycle so far.

Parts, lowest first:

    known       the placement classes that are known not to start, and the reasons
    state       the state that the parts of a cycle share
    reserve     which requests get a backfill reservation
    candidates  the request classes that take part in the job order
    report      which job reports which reason, within a budget
    preempt/    searches for victims, within a budget
    intake/     requests that are in no request class yet
    steps       the methods that `decide` calls
    plan        the plan, and the time of the next cycle"""
