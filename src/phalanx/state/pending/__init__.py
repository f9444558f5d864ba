"""Pending requests. Equal requests form a request class. Request classes with equal demands on nodes share a placement
class. Each cycle compares the demands of all classes with the free amounts of the nodes. To make this fast, both kinds
of classes are stored as columns. A column is an array with one element for each class.

Parts, lowest first:

    headroom         the amounts that queues, users, groups and jobs may still be charged
    placement_class  the demands of request classes on nodes, and how many pods of each demand fit on the nodes
    request_class    the requests of one request class, in order, and the request classes as columns
    pending          all request classes, and the results that are stored for each class; the times at which requests
                     are examined again even without an event
"""
