"""The command line: the only place where the parts of Phalanx are wired together.

terminal      what commands print, and how they are stopped
files         manifests, policies and recordings, read with the line of everything in them
local         a Kubernetes on this machine: its directory, its processes
cluster       a Kubernetes cluster: how to reach it, caches of its objects, the scheduler, a snapshot of the state
views         state as rows and pages
submission    Jobs made from options, and sent
study         simulations, and changes that are tried on a copy of a cluster
commands      one module and one function for each command
app           the table of commands, and errors as exit codes
"""
