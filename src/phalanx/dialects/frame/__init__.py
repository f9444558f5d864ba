"""The frame of all dialects: the protocol of a dialect, and code that several dialects share.

Parts, lowest first:

    quantities    amounts as quantities of the Kubernetes API
    selectors     label selectors
    pod_requests  the requests of a pod, as kube-scheduler counts them
    dialect       the protocol of a dialect: definitions, gangs, answers, and the use of each field
    moments       when an object was created
    peer_reasons  the codes by which other schedulers name Phalanx's reasons
    moved         the Phalanx equivalent of another scheduler's object
"""
