"""A world with a virtual clock: it carries plans out and answers with events, as a cluster does.

workload   jobs, how long each really runs, and the cluster; drawn or generated
readers    traces in the formats of others
schedule   what came of a workload
cluster    the simulated cluster
run        one run: a workload, under one setup, with one seed
measures   the numbers of a schedule
report     pages and pictures
"""
