"""Job kinds that others defined, run as their operators run them.

Rooms, lowest first:

    conditions  conditions of a status
    training    PyTorchJob of the Kubeflow training operator
    volcano     Job, Command, JobFlow and CronJob of Volcano
    job_set     JobSet
    train_job   TrainJob of the Kubeflow Trainer
    appwrapper  AppWrapper of the CodeFlare project
    install     their definitions
"""
