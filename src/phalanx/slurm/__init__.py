"""Slurm's commands on pods: the same scripts and command lines, and no Slurm.

notation    times, host lists, amounts and array specifications as Slurm writes them
options     command lines in the manner of getopt_long
cluster     the API server, and what the site says of its partitions, accounts and users
jobs        a job as Slurm's commands see it
accounts    the tree of accounts, and fair shares in it
control     what is done to jobs that run, and reservations
submission  from a script and options to objects
commands    each command
main        which command is meant; links to it
"""
