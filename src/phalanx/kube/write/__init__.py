"""Writes to the API server.

Rooms, lowest first:

    writer          how writes are sent, in order per object, and judged
    binding         bind a pod to a node, or let another scheduler bind it there
    job_patch       resume, suspend, resize a Job
    eviction        mark and evict bare pods, within their disruption budgets
    volume_claim    tell a claim the node that its volume is to be made for
    events          reasons and Events for people
    job_effects     what gangs ask of Jobs
    pod_effects     what gangs ask of pods
    effects         all that a gang asks for
"""
