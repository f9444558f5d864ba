"""The Job controller.

indexes      sets of completion indexes
policy       pod failure policy and success policy
backoff      when a failed pod is followed by another
view         a Job and its pods at one moment
decide       what must happen: pods to make, pods to delete
track        counts each ended pod once, and computes the status
pods         pods made, deleted, adopted, let go; a pod from the Job's template
controller   one Job, from its caches to its calls
"""
