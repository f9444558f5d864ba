"""How a process is known to an API server.

Rooms, lowest first:

    kubeconfig   clusters, users and contexts as kubectl keeps them
    plugin       credentials that another program tells (exec)
    credentials  where the server is and who calls it, from a kubeconfig or a service account
"""
