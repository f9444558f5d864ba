"""The parts that all controllers share.

pod_state   read the state of a pod, and times in the format of the API; find pods by their controller
calls       share one list and watch for each kind; call the API, and interpret its responses
discovery   find the kinds that the server serves
recorder    write Events, and combine similar Events
reconciler  the base class of the controllers of one kind; a queue of keys to reconcile, each by one
            worker at a time
"""
