"""Simulations and forecasts.

simulation  read workload files, and run many simulations in parallel
outlook     compare the forecast without a change with the forecast after it
supposed_objects  the objects of manifests as if they existed
supposed    the changes of a what-if question: new objects, fewer or more nodes
changes     apply these changes to a copy of the cluster state, and simulate the copy
"""
