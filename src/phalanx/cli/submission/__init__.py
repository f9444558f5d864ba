"""Jobs that are made from options and sent to the API.

job_options  a Job without YAML; the time and the conditions of a job's start
script       scripts with their options in them
copying      the object of a job as its user wrote it
arrays       one Job for each task of an array
sending      objects, looked at first for what would let them wait for ever
queue_spec   the spec of a queue, changed by options
moving       a whole cluster's queues, accounts and waiting jobs, sent to another cluster
"""
