"""The controllers in groups, each with what `run` must start for it.

settings   the settings of all controllers
group      what is run for a group of controllers
deletion   what deletes objects, and what keeps them from deletion
machines   nodes, and disruption budgets
workloads  the controllers of workloads: CronJobs, Deployments, Services, volumes
operators  the operators of other projects' job kinds
"""
