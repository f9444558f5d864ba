"""Admission policies in place of Kueue's webhooks.

Parts, lowest first:

    policy            one policy with its binding
    job_rules         Jobs and pods
    framework_rules   jobs of frameworks, Deployments and StatefulSets
    sending_rules     jobs of queues that send them to other clusters
    signatures        record the creator of a job
    definition_rules  ClusterQueues and ResourceFlavors
    all               all of them
"""
