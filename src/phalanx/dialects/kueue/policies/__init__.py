"""What Kueue's webhooks do, as admission policies.

Rooms, lowest first:

    policy            one policy with its binding
    job_rules         Jobs and pods
    framework_rules   jobs of frameworks, Deployments and StatefulSets
    signatures        who created a job
    definition_rules  ClusterQueues and ResourceFlavors
    all               all of them
"""
