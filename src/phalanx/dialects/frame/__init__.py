"""Define a dialect, which is the part of Phalanx that reads another scheduler's API. The package also has the code that
several dialects share.

Parts, lowest first:

    selectors     label selectors
    pod_requests  the requests of a pod, as kube-scheduler counts them; amounts as quantities of the Kubernetes API
    fields        how Phalanx uses each field of another scheduler's API
    dialect       the interface that every dialect implements
    peer_reasons  the codes that other schedulers use for the reasons why jobs wait
    moved         the Phalanx equivalents of another scheduler's objects, for migrations
"""
