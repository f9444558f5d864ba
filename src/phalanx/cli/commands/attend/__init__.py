"""Commands for existing jobs: show their output, wait for their end, change or cancel them.

logs     the output of a job
wait     wait until a job runs or has ended
cancel   end a job
hold     keep a job queued
release  let a held job start
nice     change a job's place in the queue
rerun    submit a job again
attach   follow a job's output, and return its exit code
"""
