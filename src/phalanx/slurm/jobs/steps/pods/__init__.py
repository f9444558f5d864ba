"""Run steps on the pods of an allocation. Each pod has a step daemon.

channel   the connection between srun and a step daemon; both sides must prove that they know the job's key
told      the addresses of a job's pods; the pods write them into annotations of the Job
tunnel    connect to a pod's step daemon through the API server
place     find the pods of an allocation and connect to their daemons
nodelist  print the names of a job's nodes for its launcher
follower  end a component of a heterogeneous job when the first component has ended
stepd     the step daemon of a pod
bundle    copy the daemon and the commands into pods whose image has no Python
remote    run a step through the daemons of the pods
"""
