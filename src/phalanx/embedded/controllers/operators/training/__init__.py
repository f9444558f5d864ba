"""PyTorchJobs, with the behaviour of the training operator.

definition  the definition of the kind; the types of templates, for the definitions of several kinds
controller  the controller; the status, from pods
"""
