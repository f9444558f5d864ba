"""Find the address of the API server, the proxy in front of it, and the caller's credentials.

Parts, lowest first:

    proxy        connect through an HTTP proxy
    kubeconfig   read clusters, users and contexts from kubeconfig files
    credentials  get and renew the credentials, from a kubeconfig or a service account
"""
