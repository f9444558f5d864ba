"""A connection to a pod's step daemon through the API server.

pipe     the program that the tunnel starts in the pod
through  the connection to this program
"""
