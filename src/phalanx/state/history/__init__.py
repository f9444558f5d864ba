"""What is remembered of jobs that are over.

Rooms, lowest first:

    usage      past usage of users, decayed, for fair shares
    run_times  how long jobs ran against their time limits, and what that says of the next
"""
