"""The page of `phalanx dashboard`: its server, and its files (`static/`). The caller of this package watches the
cluster, and passes to the server the cluster state that the page shows.

rows         the state of a cluster as the server sends it to the page, and the changes between two states
redaction    remove the names from a state that a viewer may not see
access       viewers, sessions, checks of every request, and the access to a server on the user's own machine
sign_in      the access to a server in a cluster, with tokens or through an authenticating proxy
libraries    install the libraries of the page, which are npm packages
serving      the routes of the server
"""
