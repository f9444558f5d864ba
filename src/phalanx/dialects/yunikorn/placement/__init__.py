"""Which queue of the configuration an application gets, and the queue that is made for it where a rule says so.

access   who may submit to a queue
rules    the placement rules, tried in order
made     queues that rules make: child templates, and what namespaces say of theirs
"""
