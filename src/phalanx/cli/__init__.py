"""The command line: the only place where the parts of Phalanx are wired together.

terminal      what commands print, and how they are stopped
files         manifests, policies and recordings, read with the line of everything in them
local         a Kubernetes on this machine: its directory, its processes
cluster       a Kubernetes API: which one, its caches, its scheduler, its state as it is now
views         state as rows and pages
submission    Jobs made from options, and sent
study         what would be: clusters that are supposed to exist, simulations
commands      a module and a function a command
app           the table of commands, and errors as exit codes
"""
