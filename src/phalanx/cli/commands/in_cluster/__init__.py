"""Any Kubernetes cluster: servers, each of which runs until it is stopped, and their manifests.

scheduler    the scheduler
webhook      its admission webhook, for API servers before Kubernetes 1.36
visibility   Kueue's visibility API
deploy       the manifests that install these
"""
