"""One pod.

demand        what it asks for
admission     does it fit here?
lifecycle     what each of its containers does next
status        what the API is told
record        what is remembered of it over a restart
allotment     the devices that are its own
environment   commands and variables of its containers
volumes       directories that it is given
tokens        tokens of its service account
"""
