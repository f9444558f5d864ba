"""Writes to the API server.

Rooms, lowest first:

    writer          how writes are sent, in order per object, and judged
    binding         bind a pod to a node
    pinning         let a pod of another scheduler go to one node
    job_patch       resume, suspend, resize a Job
    eviction        mark and evict bare pods, within their disruption budgets
    volume_claim    tell a claim the node that its volume is to be made for
    events          reasons and Events for people
    effects         all of that as a gang asks for it
"""
