"""The page of `phalanx dashboard`: a server that shows a cluster, and the page's own files
(`static/`). The caller follows the cluster and passes in its state.

rows         the state of a cluster as the page gets it; the newest state, and what changed since an earlier one
redaction    the state without names that a viewer may not see
access       viewers, sessions, the checks of every request, and the door of one's own machine
sign_in      the door in a cluster: tokens, and identities that a proxy vouches for
libraries    the libraries of the page: npm packages, installed beside its files
serving      the routes
"""
