"""The commands. Each command is the function `run` of the module with its name. It takes the words of the command line
and returns the exit code.

launch      commands that start jobs or steps: sbatch, salloc, srun
jobs        commands that show or cancel jobs
cluster     commands that show or change partitions, nodes and jobs: sinfo, scontrol, sdiag
accounting  commands about usage, accounts and rights: sacct, sreport, sshare, sacctmgr
resident    a service that runs commands without their import time, and the programs that call it
"""
