"""Simulations and forecasts.

simulation  read workload files, and run many simulations in parallel
outlook     compare the forecasts without and with a change
supposed_objects  read the objects of manifests as if the objects existed
supposed    convert the new objects of a what-if question to events
named_changes  convert the changes that options name to events: deleted objects, and more nodes
changes     apply these changes to a copy of the cluster state
future      simulate the copy, and compute when its waiting jobs are expected to start
"""
