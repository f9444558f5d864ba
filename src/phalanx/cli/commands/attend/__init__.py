"""Jobs that exist: their output, their end, and what may be done with them.

logs     the output of a job
wait     until it runs or is over
cancel   end it
hold     keep it queued
release  let it start
nice     change its place in the queue
rerun    submit it once more
attach   its output, and its exit code
"""
