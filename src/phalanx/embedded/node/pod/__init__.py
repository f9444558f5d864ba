"""One pod.

admission     whether the pod fits on this node; the resources that a pod requests
lifecycle     what each of its containers does next
cause         why the pod ended, as text
status        the status that the API server gets
record        the facts that outlast a restart of the agent
allotment     the devices that the pod has for itself
environment   commands and variables of its containers
volumes       directories that it is given
tokens        tokens of its service account
"""
