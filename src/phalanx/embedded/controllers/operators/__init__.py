"""Controllers for the job kinds of other projects, which behave like the operators of these projects.

Parts, lowest first:

    conditions  the conditions in a status
    training    PyTorchJob of the Kubeflow training operator
    volcano     Job, Command, JobFlow and CronJob of Volcano
    job_set     JobSet
    mpi_job     MPIJob of the Kubeflow MPI operator
    train_job   TrainJob of the Kubeflow Trainer
    appwrapper  AppWrapper of the CodeFlare project
    profiles    profiles of Koordinator that change pods as they are created
    install     install the definitions of these kinds
"""
