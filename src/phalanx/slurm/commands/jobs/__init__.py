"""Commands that show or cancel jobs.

scancel  cancel jobs, or send signals to them
sprio    show the factors of the priority of pending jobs
document  build the JSON document of squeue --json
squeue_steps  show running steps (squeue --steps)
squeue   show pending and running jobs
sstat    show the resource usage of running steps
"""
