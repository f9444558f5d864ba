"""The simulated cluster.

agenda       the virtual clock, and the order of happenings (changes in the cluster) at equal times
disturbance  random faults, such as failures of nodes, and events that reach the scheduler late
arrivals     when each job is submitted, and which estimate of its run time the scheduler gets
listing      the true state of each job, and the events that describe the whole cluster to a starting scheduler
factory      creates pods at a limited rate
provider     adds and removes nodes of node groups, sometimes with faults, and records which nodes must be paid for
work         the amount of work that each job has done and saved, and when each job ends
jobs         the jobs, from submission to end
world        carries out plans and reports events
"""
