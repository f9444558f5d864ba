"""Kinds about rights, limits and policies.

limits             LimitRange and ResourceQuota
disruption         PodDisruptionBudget
autoscaler         HorizontalPodAutoscaler
rbac               roles and bindings
webhook            configurations of webhooks
signing            CertificateSigningRequest
admission_policy   policies in CEL
"""
