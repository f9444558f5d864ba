"""Who may do what, and how much of it.

limits             LimitRange and ResourceQuota
disruption         PodDisruptionBudget
rbac               roles and bindings
webhook            configurations of webhooks
signing            CertificateSigningRequest
admission_policy   policies in CEL
"""
