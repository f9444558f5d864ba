"""Run the scheduler of a cluster: the scheduling loop on the objects of an API server, and all tasks beside it.

glance        the last computed statuses of queues, and the figures for users
answers       what is served on the scheduler's socket: API groups of dialects, rows of jobs, figures
observers     what observes each step of the loop: metrics, the ledger, the recording
upkeep        the tasks beside the loop: statuses of queues, past usage, pods that no scheduler attends to
cluster_world  the world of the cluster, with its node groups and the other clusters
schedule      wait for the leadership, and run all of these
"""
