"""The controllers of the embedded Kubernetes: for Jobs, other workloads, garbage collection, namespaces, lost nodes and
disruption budgets.

The controllers are ordinary clients of the API. They behave like kube-controller-manager, because the scheduler depends
on that behaviour. Pure functions compute each decision from plain objects (`job.decide`, `job.track`,
`lifetime.ownership`, …). The controllers themselves only read caches, send API calls and wait.

    runtime      shared by all controllers: caches, calls, queues, events
    job          Jobs, and the PodGroups of Jobs whose pods start together
    workloads    CronJobs, ReplicaSets and Deployments, endpoints of Services, volumes of claims
    operators    job kinds of other projects, with the behaviour of their operators
    lifetime     deletion of dependents, namespaces, finished Jobs, orphaned pods and PodGroups
    nodes        nodes without heartbeats, and tainted nodes
    disruption   PodDisruptionBudgets
    groups       the controllers in groups
    run          run all of them in one process
"""
