"""The state of one pod.

admission     decide whether the pod fits on this node; the resources that a pod requests
lifecycle     compute the next steps of its containers
cause         explain why the pod ended, as text
status        compute the status that the API server gets
record        store the facts that outlast a restart of the agent
allotment     assign devices to the pod's containers
environment   the commands and variables of its containers
volumes       create its volumes, as directories of this machine
tokens        renew the tokens of its service account
"""
