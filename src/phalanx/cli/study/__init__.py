"""Simulations and forecasts.

whatif        objects and clusters that are supposed to exist
simulation    workload files, and many simulations side by side
"""
