"""Handle requests that are in no request class: new requests, nominated jobs, and optional pods. An optional pod is a
pod above the minimum of a job that starts in this cycle.

Parts, lowest first:

    receive    report why a request is not eligible, or add the request to its request class
    nominated  start nominated jobs when their victims have left
    surplus    place the optional pods of jobs that start, in a second pass"""
