"""The Job controller.

view         a Job and its pods at one moment; sets of completion indexes; pod failure policy and success policy
decide       what must happen: pods to make, pods to delete; when a failed pod is followed by another
track        counts each ended pod once, and computes the status
pods         pods made, deleted, adopted, let go; a pod from the Job's template
controller   one Job, from its caches to its calls
"""
