"""A Kubernetes API, as commands use it.

informers     one list and watch per kind, shared
target        which cluster a command talks to
numbers       how each queue stands and why jobs wait, as the scheduler serves it
jobs          one job: its names, its pods, its end
accounting    the caches in which the ledger looks exit codes and owners up
monitoring    metrics, health and readiness of a scheduler
visibility    API groups that the scheduler itself answers
scheduling    the scheduler, wired to an API server
live_state    the cluster's state as it is now, and what would be decided now
"""
