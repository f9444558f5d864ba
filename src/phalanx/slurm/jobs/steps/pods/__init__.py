"""Run steps on the pods of an allocation. Each pod has a step daemon.

channel   the connection between srun and a step daemon; both must know the job's key
told      the addresses of a job's pods, which the pods write on the Job
tunnel    a connection to a pod's step daemon through the API server
place     find the pods of an allocation and connect to their daemons
nodelist  print the names of a job's nodes for its launcher
follower  end a component of a heterogeneous job when the first component has ended
stepd     the step daemon of a pod
bundle    copy the daemon and the commands into pods whose image has no Python
remote    run a step through the daemons of the pods
"""
