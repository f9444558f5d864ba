"""The plugins of a Job: their changes to its pods, and their further objects.

flags        parse arguments like Go's flag package
hosts        the host names of a job's pods
services     svc: the headless Service, the hosts as files and variables
keys         ssh: a key that all pods of the job share
frameworks   tensorflow, pytorch, mpi, ray, hcclrank: the role of each process
registry     all of them, by name
"""
