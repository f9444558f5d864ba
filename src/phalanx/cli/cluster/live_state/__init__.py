"""Take a snapshot of a live cluster, and compute the decisions of the next scheduling cycle, for commands such as
`explain` and `jobs`.

access            determine which objects the user may list
installation      read the data that the scheduler has written: queues, its policy, the run times in its ledger
cluster_snapshot  the state of a cluster at one moment, with the reasons and expected starts of its jobs
decision          build the cluster state from objects, and compute a scheduling cycle
silent_pods       read from Events why pods do not start
look              list the objects of a cluster once, and build its snapshot
"""
