"""Each command is the function `run` of the module of its name: command line in, exit code out.

launch      commands that start jobs or steps: sbatch, salloc, srun
jobs        commands that show or cancel jobs
cluster     partitions, nodes, and the scheduler's activity
accounting  usage by job and user, accounts, and rights
resident    a service with all commands imported, and the callers that reach it
"""
