"""From a script and options to objects of the API.

script       a script's #SBATCH lines
numbers      the next job number
request      what options ask for
manifest     the objects that are a job
environment  what a job's environment says
dependency   on which jobs a job depends
creation     objects made, and taken back if one fails
interactive  an allocation that a command waits for
"""
