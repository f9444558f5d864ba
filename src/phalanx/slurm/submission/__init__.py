"""From a script and options to objects of the API.

asked        what a job asks, from a script's lines and options
manifest     the objects that are a job
environment  what a job's environment says
numbers      the next job number; on which jobs a job depends
creation     objects made, and taken back if one fails
expected     when a job would start
het          jobs of several components
interactive  an allocation that a command waits for
"""
