"""Decisions in the form that Kueue's users read.

Parts, lowest first:

    conditions  the conditions of a status; the conditions about the readiness of pods
    names       the name of a gang's Workload
    topology    topology requests and assignments of pod sets; the sizes of a Workload's pod sets, as its job changes
    workloads   the Workload of a job, and its status
    queues/     the status of queues, and retention
    figures     Kueue's metrics
    pending     the visibility API: pending Workloads in order
"""
