"""Commands for a cluster on this machine.

control_plane   run all parts of `phalanx up` except the API server (internal)
up              start a cluster, until Ctrl-C
down            stop the cluster
demo            run six applications on a cluster of its own
image           manage the images that containers of the cluster run
install         install a shared cluster as a service of systemd
login           become a user of a shared cluster
backup          write a cluster into a file
restore         restore a cluster from a backup
"""
