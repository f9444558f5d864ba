"""Commands for existing jobs: show their output, wait for their end, change or cancel them.

logs     show the output of a job
wait     wait until a job runs or has ended
cancel   end a job
hold     keep a job in its queue until it is released
release  let a held job start
nice     change the order of a job in its queue
rerun    submit a job again
attach   follow a job's output, and return its exit code
"""
