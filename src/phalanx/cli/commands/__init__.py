"""The commands, in the folders of their groups: module `NAME` has the function `NAME`, which is `phalanx NAME`. `app`
imports it when it is called.

overview      all commands, a line each
one_machine   a cluster on this machine: started, shared, saved
in_cluster    servers for any cluster
work          jobs as they are submitted
attend        jobs that exist: their output and their end
inside        inside the pods of jobs
status        running and waiting jobs, with the reasons
study         simulations and forecasts
administer    queues, and the health of a cluster
"""
