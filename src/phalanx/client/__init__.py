"""A client for Kubernetes APIs. It contains no code about scheduling.

Parts, lowest first:

    moment      times in the format of the API
    quantity    amounts in the format of the API
    kind        kinds and their paths
    policies    build admission policies and their bindings
    tally       count API calls
    access      the server's address, the proxy in front of it, and the caller's credentials
    http        an HTTP/1.1 client with a pool of connections
    connection  make API calls and classify their outcomes
    informer    a cache of one kind, kept up to date by list and watch
"""
