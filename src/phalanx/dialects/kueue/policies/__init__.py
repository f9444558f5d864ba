"""Define admission policies that replace Kueue's webhooks.

Parts, lowest first:

    job_rules         policies for Jobs and pods; build a policy with its binding; record the creator of a job
    framework_rules   jobs of frameworks, Deployments and StatefulSets; jobs of queues that send them to other
                      clusters
    definition_rules  ClusterQueues and ResourceFlavors
"""
