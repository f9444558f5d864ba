"""Install Phalanx's objects in a cluster. Parts, lowest first:

retry               repeat calls until the API server answers
queue_schema        the schema of Queue objects, with validation rules for the API server
definitions         install and update the definitions of Phalanx's kinds
admission_policy    admission policies that queue a Job for Phalanx and record its creator
dialects            install the definitions and policies of a dialect
rivals              detect another scheduler that still runs
record_key          the key that signs records of starts
installation        install all of these
"""
