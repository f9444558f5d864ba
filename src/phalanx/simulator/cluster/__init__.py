"""The simulated cluster.

estimate     what the scheduler is told about run times
agenda       the virtual clock, and the order of events at equal times
disturbance  what goes wrong, drawn from a seed
factory      how fast pods come into being
listing      what is true of each job, and the listing with which a scheduler begins
world        plans carried out, events told
"""
