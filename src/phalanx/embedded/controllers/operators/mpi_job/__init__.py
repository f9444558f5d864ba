"""MPIJob of the Kubeflow MPI operator. Parts, lowest first:

remote_shell  a program that replaces ssh for mpirun in pods without sshd
rsh           the key pair for ssh, and the replacement of ssh on one machine
objects       the launcher Job, worker pods, hostfile, key and Service
status        the status of an MPIJob
controller    create the objects, and write the status
"""
