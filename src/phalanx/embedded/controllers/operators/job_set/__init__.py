"""Run JobSets as their operator runs them.

Parts, lowest first:

    jobs        make the Jobs of a JobSet, and its Service
    controller  create, change and delete the Jobs of a JobSet, and compute its status from them
"""
