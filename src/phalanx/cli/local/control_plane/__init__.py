"""The parts of the control plane of `phalanx up` other than the scheduler.

preparation  install kinds and policies before the parts start
controllers  the controllers
node_agents  this machine's node agent, and the simulated nodes
login_server  the server at which users of a shared machine log in
companions   all of these parts
"""
