"""Commands that look at jobs, and cancel them.

scancel  cancel, or send a signal
sprio    the factors of priority
document  the JSON of squeue and sacct
squeue_steps  the steps of squeue --steps
squeue   jobs that wait and run
sstat    steps that run
"""
