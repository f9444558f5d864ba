"""Parse and print values in Slurm's notation.

amounts   amounts of memory, counts, numbers per node
arrays    the tasks of a job array (--array)
hostlist  lists of host names, such as `a[1-3]`
printed   tables of the accounting commands
signals   names and numbers of signals
times     time limits, durations, points in time
"""
