"""Each command is the function `run` of the module of its name: command line in, exit code out.

launch      what starts something: sbatch, salloc, srun
jobs        jobs looked at and cancelled
cluster     partitions, nodes, and what the scheduler does
accounting  what was used, by whom, and who may
resident    a service with all commands imported, and the callers that reach it
"""
