"""Values as Slurm writes them.

amounts   memory, counts, generic resources
arrays    the tasks of a job array
hostlist  names of hosts
printed   columns of the accounting commands
signals   names and numbers of signals
times     limits, durations, moments
"""
