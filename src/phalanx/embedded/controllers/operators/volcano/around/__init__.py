"""The other objects of Volcano besides Jobs.

commands    what users ask for once; queues that close
flows       Jobs that follow each other, and Jobs made by a schedule
pod_groups  the PodGroups of pods that name none
"""
