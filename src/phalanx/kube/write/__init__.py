"""Writes to the API server. Parts, lowest first:

writer          send writes, in order for each object, and determine their outcomes
binding         bind a pod to a node, or let another scheduler bind it there
job_patch       resume (with its time limit), suspend, resize a Job
eviction        mark and evict bare pods, within their disruption budgets
volume_claim    write a pod's node on its volume claims
events          reasons and Events for users
job_effects     the writes to Jobs that gangs request
pod_effects     the writes to pods that gangs request
effects         all writes that a gang requests
"""
