"""Run simulations.

setup     define the setup of a run: a policy with its queues, and the rate at which pods are created
play      simulate one run; measure the time of each decision and the peak memory of the process
feasible  find jobs that can never run, before a simulation
forward   simulate the jobs of a live cluster, without further submissions
"""
