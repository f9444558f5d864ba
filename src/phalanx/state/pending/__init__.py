"""Pending requests. Equal requests form a request class. Request classes that ask the same of nodes share a placement
class. Each cycle compares both with the free amounts, as columns.

Parts, lowest first:

    request_class  the requests of one request class, in order, and the request classes as columns
    timers         times at which a request is examined again although no event came
    capacity       an upper bound on the pods of each demand that the nodes hold
    headroom       the amount that may still be charged to each row of the queue tree; one number that bounds the
                   charges of a queue
    pending        all request classes and placement classes, and what is remembered of each
"""
