"""Simulations and forecasts.

snapshot   what a cluster is now, as a file
whatif     what a change would do
replay     a recording, decision by decision
simulate   traces in virtual time
migrate    queues of another scheduler
import_    the site of another scheduler
"""
