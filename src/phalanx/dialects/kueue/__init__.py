"""Kueue (`kueue.x-k8s.io`, v1beta1 and v1beta2): its queues, its words on jobs, its answers.

Rooms, lowest first:

    kinds     its kinds, and the names that they have in our tree
    gangs     labels and annotations of jobs and pods, in our words
    tree      its definitions as our queue tree
    answers   Workloads, and the status of its definitions
    policies  what its webhooks do, as admission policies
    fields    what becomes of every field, and what has no effect
    dialect   all of it, as `frame.Dialect`
"""
