"""Volcano's Job and what is around it, as its vc-controller-manager runs them.

kinds        its kinds, labels and annotations
tasks        a Job's spec, with its defaults
plugins      what plugins make of pods, and beside them
pods         the pods and the PodGroup of a Job
policies     which action follows from what happened
decide       what becomes of a Job
controller   does it
around       commands, queues that close, flows, PodGroups of other pods
"""
