"""PyTorchJobs, run as the training operator runs them.

template    the types of templates, for its definition and those of other kinds
pods        from replica specs
definition  of the kind
status      from pods
controller  does what it says
"""
