"""Requests that are in no cell: new ones, and the pods above the minimums of jobs that start.

Rooms, lowest first:

    eligible  jobs that may not start whatever is free: begin times, dependencies, holds
    receive   a request is answered at once, or enters its cell
    surplus   pods above the minimums of jobs that start, in a second pass
"""
