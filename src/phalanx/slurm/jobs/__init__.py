"""A job as Slurm's commands see it.

ask     what was asked, as it is kept with the job
names   names of its objects and files
steps   steps within its allocation
view    a job, read from its objects
chosen  which jobs a command means
ended   jobs from the ledger
fields  columns of squeue
nodes   nodes as the commands see them
pages   pages of `scontrol show`
"""
