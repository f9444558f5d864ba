"""Run TrainJobs like the Kubeflow Trainer. Parts, lowest first:

mpi         add the host list, the key and the remote shell for MPI runtimes
job_set     make the JobSet of a TrainJob from its training runtime
controller  create the JobSet, and write the status
"""
