"""Jobs that are made from options and sent to the API.

scheduling_options  the time and the conditions of a job's start
job_options         a Job without YAML
script              scripts with their options in them
arrays              one Job for each task of an array
copying             the object of a job as its user wrote it
sending             objects, looked at first for what would let them wait for ever
queue_spec          the spec of a queue, changed by options
moving              a whole cluster's queues, accounts and waiting jobs, sent to another cluster
"""
