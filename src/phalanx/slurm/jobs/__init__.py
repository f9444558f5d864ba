"""Jobs and nodes as Slurm's commands show them.

ask     the submitted request of a job, stored in an annotation of its Job
names   names of a job's objects and output files
steps   job steps inside the allocation of a job
view    a job, read from its Job and pods
chosen  the jobs that the options of a command select
ended   jobs that have ended, read from the ledger, the accounting database
fields  columns of squeue
nodes   nodes as the commands show them
pages   pages of `scontrol show`
"""
