"""The two servers to which a Kubernetes API server sends requests: an admission webhook and an aggregated API server.

Parts, lowest first:

    webhook      evaluate the admission policies for API servers without MutatingAdmissionPolicy
    aggregation  answer the requests for one API group
"""
