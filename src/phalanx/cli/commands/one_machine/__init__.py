"""A cluster on this machine.

control_plane   what `up` runs besides the API server (internal)
up              start one, until Ctrl-C
down            stop one
demo            six applications on one of its own
image           images that its containers run
install         a shared one as a service of systemd
login           become a user of a shared one
backup          one as a file
restore         one from such a file
"""
