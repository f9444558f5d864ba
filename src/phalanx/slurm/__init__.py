"""Slurm's commands on pods: the same scripts and command lines, and no Slurm.

notation    times, host lists, amounts and array specifications as Slurm writes them
options     command lines in the manner of getopt_long
api         calls to the API server, blocking, from what is imported in a moment
site        partitions and defaults of the cluster
accounts    the tree of accounts, and fair shares in it
jobs        a job as Slurm's commands see it
submission  from a script and options to objects
control     what is done to jobs that run, and reservations
commands    each command
main        which command is meant; links to it
"""
