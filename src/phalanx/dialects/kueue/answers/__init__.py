"""What was decided, as Kueue's users read it.

Rooms, lowest first:

    conditions  one condition of a status, kept while it says the same
    readiness   the conditions that follow how its pods do
    topology    what pod sets ask for of a Topology, and where they are
    names       which Workload is which gang's
    sizes       a Workload that follows its job
    workloads   the Workload of a job, and its status
    queues/     the status of queues
    figures     its metrics
    pending     who waits, in order: its visibility API
"""
