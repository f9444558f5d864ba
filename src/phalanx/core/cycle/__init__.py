"""One cycle: the steps that `decide` names, and what the cycle has decided so far.

Rooms, lowest first:

    blocked     classes that may start by counting, until a trial shows that they do not
    state       what the parts of a cycle share
    reserve     who gets a backfill reservation, and who may start beside it
    candidates  the request classes that take part in the job order
    messages    who is told why it waits
    preempt/    searches for victims, within a budget
    intake/     requests that are in no request class yet: answered at once, or received
    steps       the methods that `decide` calls
    plan        what was decided, and when to look again though nothing happens
"""
