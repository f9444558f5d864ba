"""The controllers of the embedded Kubernetes: Jobs, owners, namespaces, finished Jobs, lost nodes, budgets.

They are clients of the API like any other, and behave like kube-controller-manager, because a scheduler's protocol
leans on that behaviour. What must happen is decided by pure modules (`job_decide`, `job_track`, `ownership`, …) over
plain objects; the controllers beside them only read caches, send calls and wait.
"""
