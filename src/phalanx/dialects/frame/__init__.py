"""The frame of all dialects: what a dialect is, and what several of them need.

Rooms, lowest first:

    quantities    amounts as quantities of the Kubernetes API
    selectors     label selectors
    pod_requests  what a pod asks, as kube-scheduler counts it
    dialect       the protocol of a dialect: definitions, gangs, answers, and the use of each field
    peer_reasons  what the peers' own conditions call the reasons why a job waits
    moved         what an object of another scheduler's becomes here
"""
