"""An aggregated API server: the kube-apiserver forwards requests for one API group to this process.

front_proxy  read the user of a forwarded request from its headers; ask the API server whether the user may read the
             path
belief       keep the front proxy's settings up to date
serving      the HTTPS port and its responses
"""
