"""The simulated cluster.

agenda       the virtual clock, and the order of happenings at equal times
disturbance  random faults, such as failures of nodes, and events that reach the scheduler late
arrivals     when each job is submitted, and which estimate of its run time the scheduler gets
listing      the true state of each job, and the list of everything with which a scheduler begins
factory      creates pods at a limited rate
provider     adds and removes nodes of node groups, sometimes with faults, and computes their price
work         the work of running jobs, and when each ends
jobs         the jobs, from submission to end
world        executes plans and reports events
"""
