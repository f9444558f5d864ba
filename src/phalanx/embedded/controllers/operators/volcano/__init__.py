"""Run Volcano's Job and its related kinds like vc-controller-manager.

kinds       Volcano's kinds, labels and annotations
job_spec    a Job's spec, with its defaults: tasks, `minAvailable`; the action that follows from an event
plugins     the plugins of a Job: how they change its pods, and which further objects they create
pods        the pods and the PodGroup of a Job
decide      the next steps of a Job
controller  the controller of Jobs, and a Job's objects other than pods
commands    Commands, which are carried out once; close queues
flows       JobFlows: Jobs that start after other Jobs; Jobs that a schedule creates
pod_groups  create PodGroups for pods that name none
"""
