"""The Job controller.

indexes      sets of completion indexes
policy       pod failure policy and success policy
backoff      when a failed pod is followed by another
view         a Job and its pods, as one looks at them
decide       what must happen: pods to make, pods to delete
track        pods counted once, and the status that follows
template     a pod from the Job's template
pods         pods made, deleted, adopted, let go
controller   one Job, from its caches to its calls
"""
