"""Simulations and forecasts.

snapshot   write the cluster's present state into a file
whatif     forecast the effect of a change
replay     go through a recording of the scheduler, decision by decision
simulate   run traces in virtual time
migrate    convert queues of another scheduler
import_    convert the configuration of a Slurm site
"""
