"""The commands of `phalanx`, in one folder for each group of the overview. Module `NAME` has the function `NAME`, which
implements `phalanx NAME`. `app` imports the module when the command is called.

overview      a list of all commands, with one line of help each
one_machine   start, share, back up and restore a cluster on this machine
in_cluster    the scheduler and its servers, for any cluster
work          submit jobs
attend        show the output of existing jobs, wait for their end, and change or cancel them
inside        run commands and copy files in the pods of jobs
status        show jobs, the reasons of waiting jobs, nodes and queues
study         simulations and forecasts
administer    manage queues, check the health of a cluster, move to another cluster
"""
