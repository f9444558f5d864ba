"""Controllers inside the API server. Each of them gets every committed object of one kind, and reconciles it. Only
`bootstrap` is different: it creates the objects of a new cluster.

bootstrap       the objects of a new cluster
definitions     CustomResourceDefinitions, which change the served kinds
type_checking   type errors of admission policies, in their status
quota_usage     the usage of quotas, in their status
"""
