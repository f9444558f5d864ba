"""Simulations and forecasts.

simulation  read workload files, and run many simulations in parallel
outlook     compare the forecast without a change with the forecast after it
supposed_objects  the objects of manifests as if they existed
supposed    the new objects of a what-if question, as events
named_changes  the changes that options name, as events: deleted objects, and more nodes
changes     apply these changes to a copy of the cluster state
future      simulate the copy, and compute when its waiting jobs are expected to start
"""
