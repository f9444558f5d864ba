"""The controllers in groups. Each group lists the loops and queues that `run` must start.

settings   the settings of all controllers
group      the loops and queues of a group of controllers
deletion   the controllers that delete objects, or delay their deletion
machines   the controllers of nodes and of disruption budgets
workloads  the controllers of workloads: CronJobs, Deployments, Services, volumes
operators  the operators of other projects' job kinds
"""
