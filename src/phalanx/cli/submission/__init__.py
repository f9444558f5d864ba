"""Make Jobs from command-line options, and create them in the cluster.

job_options  the options that describe a Job without YAML, and the time and conditions of its start
script       scripts that contain their options as `#PHALANX` lines
copying      reconstruct the object of a job as its user submitted it
arrays       one Job for each task of an array
sending      create objects, after checks for mistakes because of which a job would never start
queue_spec   change the spec of a queue as options request; check a spec and the queue tree
moving       move queues, accounts and waiting jobs of a whole cluster to another cluster
"""
