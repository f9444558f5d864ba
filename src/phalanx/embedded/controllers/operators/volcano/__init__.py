"""Run Volcano's Job and its related kinds like vc-controller-manager.

kinds       Volcano's kinds, labels and annotations
job_spec    read a Job's spec with its defaults (tasks, `minAvailable`); choose the action for an event
plugins     the plugins of a Job: change its pods, and build the objects of the plugins
pods        build the pods and the PodGroup of a Job
decide      decide the next actions for a Job
controller  the controller of Jobs, and a Job's objects other than pods
commands    execute Commands, each at most once; close queues
flows       run JobFlows (Jobs that start after other Jobs), and CronJobs
pod_groups  create PodGroups for pods that name none
"""
