"""Define a dialect, which is the part of Phalanx that reads another scheduler's API, and hold the code that several
dialects share.

Parts, lowest first:

    selectors     label selectors
    pod_requests  the requests of a pod, as kube-scheduler counts them; amounts as quantities of the Kubernetes API
    fields        the use of another API's fields
    dialect       a dialect as a value: definitions, gangs, answers
    peer_reasons  the codes by which other schedulers name Phalanx's reasons
    moved         the Phalanx equivalent of another scheduler's object
"""
