"""MPIJob of the Kubeflow MPI operator.

Rooms, lowest first:

    remote_shell  a program: what mpirun takes for ssh where there is no sshd
    rsh           the key pair for ssh, and what stands in for ssh on one machine
    objects       its launcher Job, worker pods, hostfile, key and Service
    status        what it has come to
    controller    makes them, and says in the MPIJob what has become of it
"""
