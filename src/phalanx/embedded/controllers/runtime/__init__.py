"""The parts that all controllers share.

pod_state   questions about one pod; times as the API writes them; pods by their controller
calls       one list and watch per kind, shared; calls to the API, and what their answers mean
discovery   the kinds that are served
recorder    events, alike ones combined
reconciler  the base of the controllers of one kind, and what they share; keys that are to be looked at, each by one
            worker at a time
"""
