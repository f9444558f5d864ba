"""Run the scheduler of a cluster: the scheduling loop with the objects of an API server, and all tasks that run at the
same time.

glance        the last computed statuses of queues, and the numbers for users
answers       serve data on the scheduler's socket: API groups of dialects, rows of jobs, numbers
observers     pass each step of the loop to the metrics, the ledger and the recording
upkeep        the other tasks: write statuses of queues, past usage, and Events about pods that no scheduler handles
cluster_world  the world (the interface to the API server) of the cluster, with its node groups and the other clusters
schedule      wait until this process is the leader, and run all of these modules
"""
