"""The Kubernetes cluster that `phalanx up` runs on this machine.

data_directory  the directory with all files of the cluster: its owner and its contents
node_groups     node groups from the options and files of users
backup          write a cluster into one file, and restore it
detached        start the cluster in the background
supervisor      start child processes again when they end, and end them with this process
draining        end the pods that run as processes of this machine, as `kubectl drain` does
offered_kinds   job kinds of other projects whose API is served, although their controllers may not run
local_cluster   start and stop the API server and the control plane of one data directory
control_plane   the parts of the control plane other than the scheduler
"""
