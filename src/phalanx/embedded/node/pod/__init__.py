"""Compute and store the state of one pod.

admission     decide whether the pod fits on this node; compute the resources that a pod requests
lifecycle     compute the next steps of the pod's containers
cause         explain why the pod ended, as text
status        compute the pod's status for the API server
record        store the facts that the agent needs after a restart
allotment     assign devices to the pod's containers
environment   the commands and environment variables of the pod's containers
volumes       create the pod's volumes, as directories of this machine
tokens        renew the tokens of the pod's service account
"""
