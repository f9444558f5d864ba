"""The Job controller.

fields       the fields of Jobs that the controller reads and writes, with their types
view         read a Job and its pods at one moment; sets of completion indexes; pod failure policy and success policy
decide       decide which pods are created and deleted, and when a failed pod is replaced
track        count each ended pod once, and compute the status
pods         create, delete, adopt and release pods; build a pod from the Job's template
gang         create the Workload and the PodGroup of a Job whose pods must start together
controller   reconcile a Job: read the caches, decide, send the API calls
"""
