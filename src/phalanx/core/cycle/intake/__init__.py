"""Handle requests that are in no request class: new requests, nominated jobs, and pods above the minimums of jobs that
start.

Parts, lowest first:

    receive    report why a request is not eligible, or add the request to its request class
    nominated  start nominated jobs when their victims have left
    surplus    place pods above the minimums of jobs that start, in a second pass"""
