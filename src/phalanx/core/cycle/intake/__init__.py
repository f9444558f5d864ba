"""Requests that are in no cell yet.

Rooms, lowest first:

    eligible  jobs that may not start whatever is free: begin times, dependencies, holds
    receive   a request is answered at once, or enters its cell
"""
