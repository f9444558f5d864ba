"""A connection to a pod's step daemon through the API server.

pipe     what is started in the pod
through  the connection to it
"""
