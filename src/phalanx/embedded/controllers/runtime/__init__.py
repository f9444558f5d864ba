"""The parts that all controllers share.

timestamp    times as the API writes them
selector     label selectors
pod_state    questions about one pod
pod_index    pods by their controller
calls        one list and watch per kind, shared; calls to the API, and what their answers mean
discovery    the kinds that are served
recorder     events, alike ones combined
work_queue   keys that are to be looked at, each by one worker at a time
reconciler   the base of the controllers of one kind, and what they share
"""
