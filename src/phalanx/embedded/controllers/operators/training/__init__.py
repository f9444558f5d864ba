"""Run PyTorchJobs like the Kubeflow training operator.

definition   the pods and services of a job; the definition of the kind; the schemas of pod templates for several kinds
controller   the controller; compute the status from pods
"""
