"""Pending requests. Equal requests form a request class. Request classes with equal demands on nodes share a placement
class. Each cycle compares the classes with the free amounts. For that, both kinds of classes are stored as columns:
arrays with one element for each class.

Parts, lowest first:

    timers           times at which a request is examined again although no event came
    headroom         the amount that may still be charged to each row of the queue tree; one number that bounds the
                     charges of a queue
    placement_class  what request classes ask of nodes, and how many such pods the nodes hold, as columns
    request_class    the requests of one request class, in order, and the request classes as columns
    pending          all request classes, and the results that are remembered for each class
"""
