"""Connect to the step daemon of a pod through the API server, with `pods/exec`.

pipe     the program that `pods/exec` starts in the pod
through  start this program, and connect to it
"""
