"""MPIJob of the Kubeflow MPI operator. Parts, lowest first:

remote_shell  a program that replaces ssh for mpirun in pods without sshd
objects       the launcher Job, worker pods, hostfile, key and Service; the key pair for ssh, and the replacement of
              ssh on one machine
controller    create the objects, and write the status; the status of an MPIJob
"""
