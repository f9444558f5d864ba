"""Install Phalanx's objects in a cluster. The parts, lowest first:

queue_schema        the schema of Queue objects, with validation rules for the API server
admission_policy    admission policies that queue a Job for Phalanx and record its creator
definitions         install and update the definitions of Phalanx's kinds; install the definitions and policies of a
                    dialect
rivals              detect another scheduler that still runs
installation        call all of these, and repeat calls until the API server answers; get the key that signs records of
                    starts
"""
