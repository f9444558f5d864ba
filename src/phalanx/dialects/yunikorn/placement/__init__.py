"""Chooses the queue of an application by YuniKorn's placement rules, and creates the queue if a rule says so.

rules    the placement rules, tried in order; the ACLs of queues
made     the queues that rules create, from child templates and the annotations of namespaces
"""
