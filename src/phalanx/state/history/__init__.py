"""What is remembered of jobs that are over.

Rooms, lowest first:

    usage        past usage of users, decayed, for fair shares
    recent_jobs  recent submissions, from which forecasts derive later ones
    run_times    how long jobs ran against their time limits, and what that says of the next
"""
