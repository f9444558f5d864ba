"""TrainJob, run as the Kubeflow Trainer runs it.

Rooms, lowest first:

    mpi         hosts, key and remote shell, where its runtime is for MPI
    job_set     the JobSet that a TrainJob is to have, by its runtime
    controller  makes it, and says in the TrainJob what has become of it
"""
