"""Volcano's Job and its related kinds, with the behaviour of vc-controller-manager.

kinds       Volcano's kinds, labels and annotations
job_spec    a Job's spec, with its defaults: tasks, `minAvailable`; the action that follows from an event
plugins     the changes of plugins to pods, and their further objects
pods        the pods and the PodGroup of a Job
decide      the next steps of a Job
controller  the controller
commands    what users ask for once; queues that close
flows       Jobs that follow each other, and Jobs made by a schedule
pod_groups  the PodGroups of pods that name none
"""
