"""Take a snapshot of a live cluster, and compute the decisions of the next scheduling cycle, for commands such as
`explain` and `jobs`.

access            what the user may list
installation      what the scheduler of a cluster has left there: its queues, its policy, the run times in its ledger
cluster_snapshot  the state of a cluster at one moment, with the reasons and expected starts of its jobs
decision          build the cluster state from objects, and decide on it
silent_pods       the causes in the Events of pods that do not start
look              list the objects of a cluster once, and make its snapshot
"""
