"""The server's address, the proxy before it, and the caller's credentials.

Parts, lowest first:

    proxy        connections through an HTTP proxy
    kubeconfig   clusters, users and contexts in kubectl's files
    credentials  server and credentials from a kubeconfig or a service account
"""
