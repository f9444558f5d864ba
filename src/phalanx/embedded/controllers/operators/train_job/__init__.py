"""Run TrainJobs like the Kubeflow Trainer. Parts, lowest first:

mpi         add hosts, key and remote shell for MPI runtimes
job_set     make the JobSet of a TrainJob from its training runtime
controller  create the JobSet, and write the status
"""
