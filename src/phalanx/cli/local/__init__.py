"""A Kubernetes on this machine, as `phalanx up` runs it.

data_directory  whose it is, and what lies in it
node_groups     node groups, as users write them
backup          a cluster in one file, and back
detached        … in the background
supervisor      child processes: kept alive, and none outlives its parent
draining        … ended, as `kubectl drain` does it; pods that are processes of this machine
offered_kinds   the job kinds of other projects that are served without their controllers
local_cluster   the API server and the control plane on one data directory
"""
