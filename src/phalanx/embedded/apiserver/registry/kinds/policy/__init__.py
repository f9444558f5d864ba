"""Who may do what, and how much of it.

limits             LimitRange and ResourceQuota
disruption         PodDisruptionBudget
rbac               roles and bindings
webhook            configurations of webhooks
admission_policy   policies in CEL
"""
