"""Job kinds that others defined, run as their operators run them.

training   PyTorchJob of the Kubeflow training operator
volcano    Job, Command, JobFlow and CronJob of Volcano
"""
