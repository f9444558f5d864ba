"""PyTorchJobs, with the behaviour of the training operator.

template    the types of templates, for the definitions of several kinds
pods        the pods of replica specs
definition  the definition of the kind
status      the status, from pods
controller  the controller
"""
