"""Create the API objects of a job from its script and options.

asked        read the request of a job from options and #SBATCH lines
manifest     build the Job and the Secret of a job
environment  set the environment variables of a job
numbers      take the next job number; read the dependencies of a job
creation     create the objects, and delete them again if one fails
expected     estimate when a job would start (--test-only)
het          create heterogeneous jobs, which have several components
interactive  request an allocation for salloc or srun, and wait for it
"""
