"""The simulated cluster.

agenda       the virtual clock, and the order of events at equal times
disturbance  faults, drawn from a seed, and the failures of nodes; events on their way to the scheduler
arrivals     when each job is submitted, and the job that the scheduler is given; the run times that the scheduler is
             given
listing      the true state of each job, and the list of everything with which a scheduler begins
factory      creates pods, and the rate at which it does
provider     adds and removes nodes of node groups, with faults, and keeps the bill
work         the work of running jobs, and when each ends
jobs         the jobs, from submission to end
world        executes plans and reports events
"""
