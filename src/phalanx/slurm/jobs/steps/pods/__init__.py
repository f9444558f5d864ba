"""Steps on the pods of an allocation, each of which has a daemon.

channel   a connection between two processes that have the job's key
told      the addresses of a job's pods, which the pods publish
tunnel    a connection to a pod's daemon through the API server
place     find the pods of an allocation
nodelist  the names of a job's nodes, for its launcher
follower  a component that ends with the first one
stepd     the daemon of a pod
bundle    daemon and commands for images that have no Python
remote    a step on the pods of an allocation
"""
