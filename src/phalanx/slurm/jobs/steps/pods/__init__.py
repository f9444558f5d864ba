"""Steps on the pods of an allocation, each of which has a daemon.

channel   a connection whose both ends know the job's key
told      where the pods of a job are, told by themselves
tunnel    a connection to a pod's daemon through the API server
place     where the pods of an allocation are
nodelist  the names of a job's nodes, for its launcher
follower  a component that ends with the first one
stepd     the daemon of a pod
bundle    daemon and commands for images that have no Python
remote    a step on the pods of an allocation
"""
