"""Slurm's commands for a cluster with Phalanx. The commands take the scripts and command lines of Slurm, and need no
Slurm daemon.

notation    read and print times, host lists, amounts and array specifications in Slurm's notation
options     parse command lines as getopt_long(3) does
cluster     the client of the API server, and the site's partitions, accounts and users
jobs        read jobs and nodes as Slurm's commands show them; run job steps
accounts    the tree of accounts, and fair shares in it
control     signal, suspend and cancel jobs; advance reservations
submission  create the API objects of a job from a script and options
commands    one module for each command
main        run the Slurm command that the name of the started program names; install the commands
"""
