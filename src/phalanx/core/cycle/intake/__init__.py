"""Requests that are in no request class: new requests, and pods above the minimums of jobs that start.

Parts, lowest first:

    receive    report why a job is not eligible (begin times, dependencies, holds), or add it to its request class
    nominated  jobs that start when their victims have left
    surplus    pods above the minimums of jobs that start, in a second pass"""
