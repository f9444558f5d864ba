"""Simulations and forecasts.

simulation  workload files, and many simulations side by side
outlook     two futures side by side, and their difference in brief
supposed    objects that do not exist yet, fewer or more nodes
"""
