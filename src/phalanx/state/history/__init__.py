"""Facts about finished jobs: past usage, submissions and run times.

Parts, lowest first:

    usage        the decayed past usage of users, for fair shares
    recent_jobs  recent submissions, from which forecasts derive later ones
    run_times    run times of finished jobs, and the expected run times of others
"""
