"""Requests that are in no request class: new ones, and the pods above the minimums of jobs that start.

Rooms, lowest first:

    eligible  jobs that may not start whatever is free: begin times, dependencies, holds
    receive   a request is answered at once, or enters its request class
    surplus   pods above the minimums of jobs that start, in a second pass
"""
