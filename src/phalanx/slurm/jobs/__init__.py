"""A job as Slurm's commands see it.

ask     the request of a job, stored in an annotation
names   names of its objects and files
steps   steps within its allocation
view    a job, read from its objects
chosen  the jobs that a command selects
ended   jobs from the ledger
fields  columns of squeue
nodes   nodes as the commands see them
pages   pages of `scontrol show`
"""
