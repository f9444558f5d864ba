"""Run MPIJobs like the Kubeflow MPI operator. Parts, lowest first:

remote_shell  a program that replaces ssh for mpirun in pods without sshd
objects       build the launcher Job, worker pods, hostfile, key and Service; create the key pair for ssh, and a
              replacement of ssh on one machine
controller    create the objects; compute and write the status of an MPIJob
"""
