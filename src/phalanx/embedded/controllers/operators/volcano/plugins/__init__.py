"""What the plugins of a Job make of its pods and beside them.

flags        arguments as Go's flag package reads them
hosts        the names under which the pods of a job reach each other
services     svc: the headless Service, the hosts as files and variables
keys         ssh: a key that all pods of the job share
frameworks   tensorflow, pytorch, mpi, ray, hcclrank: who each process is
registry     all of them, by name
"""
