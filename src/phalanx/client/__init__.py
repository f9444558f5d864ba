"""A client of any Kubernetes API. It knows nothing of scheduling.

Rooms, lowest first:

    moment      times as the API writes them
    quantity    amounts as the API writes them
    kind        kinds and their paths
    tally       calls, counted
    proxy       the way to a server that is behind an HTTP proxy
    access      who calls, and where the server is
    http        HTTP/1.1 on connections that are kept
    connection  calls, and what became of them
    informer    a cache of one kind, kept true by list and watch
"""
