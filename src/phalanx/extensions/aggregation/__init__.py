"""An aggregated API server: the kube-apiserver forwards requests for one API group to this process.

front_proxy  read the user of a forwarded request from its headers
belief       keep the front proxy's settings up to date
access       ask the API server whether the user may read the path
serving      the HTTPS port and its responses
"""
