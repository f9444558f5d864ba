"""Koordinator (`koord-scheduler`): its gangs, its tree of ElasticQuotas, what its manager refuses.

Rooms, lowest first:

    kinds         its kinds, labels and annotations, and the names that its queues have in our tree
    quota/        ElasticQuota and ElasticQuotaProfile: our queue tree, and what is used of it
    reservation/  room that is kept for owners
    definitions/  devices of nodes, gangs that start together, and all of it
    gang/         which pods are one gang, what its PodGroup says of it
    webhooks/     what its webhooks refuse and change, as admission policies
    fields/       what becomes of every field, label and annotation, on objects and before they move
    dialect       all of it, as `frame.Dialect`

Source: koordinator-sh/koordinator v1.8.0.
"""
