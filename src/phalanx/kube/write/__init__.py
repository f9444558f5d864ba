"""The writes to the API server. The parts, lowest first:

writer          send writes, in order for each object, and determine their outcomes
binding         bind a pod to a node, or let another scheduler bind the pod to this node
events          reasons and Events for users
job_patch       the writes to Jobs that gangs request: resume, suspend and resize a Job
pod_effects     the writes to pods that gangs request: mark and evict bare pods, within their disruption budgets;
                write a pod's node on its volume claims
effects         all writes that a gang requests
"""
