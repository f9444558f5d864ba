"""The controllers of the embedded Kubernetes: Jobs, owners, namespaces, finished Jobs, lost nodes, budgets.

They are clients of the API like any other, and behave like kube-controller-manager, because a scheduler's protocol
leans on that behaviour. What must happen is decided by pure modules (`job.decide`, `job.track`, `lifetime.ownership`,
…) over plain objects; the controllers beside them only read caches, send calls and wait.

    runtime      what every controller works with: caches, calls, queues, events
    gang         pods that start together
    job          Jobs
    workloads    CronJobs, ReplicaSets and Deployments, the addresses that Services stand for, the volumes of claims
    operators    job kinds of others, as their operators run them
    lifetime     what goes, and what waits for it: owners, namespaces, finished Jobs, orphaned pods
    nodes        nodes that are silent or tainted
    disruption   PodDisruptionBudgets
    run          all of them in one process
"""
