"""Connections to a Kubernetes API, and the functions by which commands read and write objects.

informers     caches of objects: one list and watch for each kind, shared by all users of the cache
target        the options that select the cluster of a command
numbers       read the status of queues and the reasons of waiting jobs from the scheduler, which computes and serves
              them
jobs          find one job by its name, follow its pods and its output, change it
accounting    exit codes and owners of jobs, from caches, for the ledger
monitoring    metrics, health and readiness of a scheduler
visibility    API groups that the scheduler's own process serves
scheduling    run the scheduler against an API server
live_state    read the cluster's present state, and compute what the scheduler would decide now
"""
