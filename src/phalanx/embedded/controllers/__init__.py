"""The controllers of the embedded Kubernetes: Jobs, owners, namespaces, finished Jobs, lost nodes, budgets.

They are ordinary clients of the API, and behave like kube-controller-manager, because the scheduler depends on that
behaviour. Pure modules over plain objects decide (`job.decide`, `job.track`, `lifetime.ownership`, …); the controllers
only read caches, send calls and wait.

    runtime      shared by all controllers: caches, calls, queues, events
    gang         pods that start together
    job          Jobs
    workloads    CronJobs, ReplicaSets and Deployments, endpoints of Services, volumes of claims
    operators    job kinds of other projects, with the behaviour of their operators
    lifetime     deletion of dependents, namespaces, finished Jobs and orphaned pods
    nodes        nodes without heartbeats, and tainted nodes
    disruption   PodDisruptionBudgets
    run          run all of them in one process
"""
