"""Commands for jobs that exist: show their output, wait for them, change them, end them.

logs     the output of a job
wait     wait until a job runs or has ended
cancel   end a job
hold     keep a job queued
release  let a held job start
nice     change a job's place in the queue
rerun    submit a job again
attach   follow a job's output, and return its exit code
"""
