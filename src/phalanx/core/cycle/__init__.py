"""Run one scheduling cycle. `core.decide` calls the steps in this package. The steps record each decision in
a `CycleState`.

Parts, lowest first:

    known       the placement classes that cannot start, and the reasons
    state       the state that the parts of a cycle share
    reserve     the requests that get a backfill reservation
    candidates  the request classes that this cycle tries in the job order
    report      the reasons that jobs report, within a budget
    preempt/    searches for victims, within a budget
    intake/     handles requests that are in no request class yet
    steps       the methods that `decide` calls
    plan        the plan, and the time of the next cycle"""
