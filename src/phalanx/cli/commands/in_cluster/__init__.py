"""Commands for any Kubernetes cluster: servers that run until they are stopped, and the manifests that install them.

scheduler_process  the connections, the Lease and the caches of the scheduler
scheduler    the scheduler
webhook      the admission webhook, for API servers before Kubernetes 1.36
served_apis  the API groups that `phalanx visibility` serves
visibility   aggregated APIs: Kueue's visibility API, or numbers about queues and jobs for every user
deploy       the manifests that install these servers
"""
