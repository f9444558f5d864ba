"""The server's address and the caller's credentials.

Parts, lowest first:

    kubeconfig   clusters, users and contexts in kubectl's files
    plugin       credentials from another program (exec)
    credentials  server and credentials from a kubeconfig or a service account
"""
