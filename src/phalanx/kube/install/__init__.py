"""What Phalanx brings to a cluster that it schedules.

Rooms, lowest first:

    retry               calls that are repeated until the API server answers
    queue_schema        the schema of Queue objects, with rules that the API server checks
    definitions         the definitions of our kinds, brought up to date
    admission_policy    the admission policies that make a Job ours, and say whose it is
    dialects            what a dialect brings: its definitions and policies
    rivals              the other scheduler's own controller, still at work
    record_key          the key that signs records of starts
    installation        all of that
"""
