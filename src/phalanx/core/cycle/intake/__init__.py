"""Handle requests that are in no request class: new requests, nominated jobs, and pods above the minimums of jobs that
start.

Parts, lowest first:

    eligible   jobs that may not start even with free capacity: begin times, dependencies, holds
    receive    report a reason at once, or add the request to its request class
    nominated  jobs that start when their victims have left
    surplus    pods above the minimums of jobs that start, in a second pass"""
