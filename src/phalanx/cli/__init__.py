"""The command line `phalanx`. Only this package may import all other packages of Phalanx and connect them.

terminal      print results, and stop commands on signals
files         read manifests, policies and recordings; an error names the file and the line
local         a Kubernetes cluster on this machine: its data directory and its processes
cluster       work with any Kubernetes cluster: connections, caches of its objects, the scheduler, a snapshot of the
              state
views         the cluster's state as table rows and text pages
submission    make Jobs from command-line options, and create them in the cluster
study         simulations, and forecasts on a copy of the cluster's state
commands      one module and one function for each command
app           run the command that the user named, and convert errors to exit codes
"""
