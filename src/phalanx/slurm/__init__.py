"""Slurm's commands for a cluster with Phalanx. They take the same scripts and command lines, and need no Slurm daemon.

notation    read and print times, host lists, amounts and array specifications in Slurm's notation
options     parse command lines as getopt_long(3) does
cluster     the client of the API server, and the site's partitions, accounts and users
jobs        read jobs and nodes as Slurm's commands show them; run job steps
accounts    the tree of accounts, and fair shares in it
control     signal, suspend and cancel jobs; advance reservations
submission  create the API objects of a job from a script and options
commands    one module for each command
main        run the command with the name of the program; install the commands
"""
