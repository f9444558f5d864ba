"""The command line `phalanx`. This package is the only one that connects the other packages of Phalanx with each other.

terminal      what commands print, and how they are stopped
files         manifests, policies and recordings; errors in them name the file and the line
local         a Kubernetes cluster on this machine: its data directory and its processes
cluster       any Kubernetes cluster: connections, caches of its objects, the scheduler, a snapshot of the state
views         the cluster's state as table rows and text pages
submission    make Jobs from command-line options, and create them in the cluster
study         simulations, and forecasts on a copy of the cluster's state
commands      one module and one function for each command
app           run the command that the user named, and convert errors to exit codes
"""
