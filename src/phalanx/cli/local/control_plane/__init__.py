"""The parts that run in the control plane of `phalanx up` beside the scheduler.

preparation  the kinds and policies that are installed before the parts start
controllers  the controllers
node_agents  this machine's node agent, and the simulated nodes
login_server  the login server of a shared machine
companions   all of these parts
"""
