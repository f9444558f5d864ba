"""TrainJob, with the behaviour of the Kubeflow Trainer. Parts, lowest first:

mpi         hosts, key and remote shell of MPI runtimes
job_set     the JobSet of a TrainJob, from its runtime
controller  create the JobSet, and write the status
"""
