"""Controllers inside the server. Each gets every committed object of one kind, and reconciles it. The first one creates
what a new cluster has.

bootstrap       the objects of a new cluster
definitions     CustomResourceDefinitions, which change the served kinds
type_checking   type errors of admission policies, in their status
quota_usage     the usage of quotas, in their status
"""
