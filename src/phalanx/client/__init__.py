"""A client of any Kubernetes API. It contains no code about scheduling.

Parts, lowest first:

    moment      times in the format of the API
    quantity    amounts in the format of the API
    kind        kinds and their paths
    policies    admission policies and their bindings
    tally       counters of API calls
    access      the server's address, the proxy before it, and the caller's credentials
    http        HTTP/1.1 on connections that are kept open
    connection  API calls and their outcomes
    informer    a cache of one kind, kept up to date by list and watch
"""
