"""Run PyTorchJobs like the Kubeflow training operator.

definition  the definition of the kind; the schemas of pod templates, for the definitions of several kinds
controller  the controller; compute the status from pods
"""
