"""Servers that extend an API server, which sends them requests: an admission webhook, and an aggregated API.

Parts, lowest first:

    webhook      evaluates the admission policies for API servers that do not serve MutatingAdmissionPolicy
    aggregation  answers the requests for one API group
"""
