"""Schedules.

schedule   the start, end and allocations of each job
sweep      a schedule, change by change
bill       the price of the nodes of node groups, and how well they were used
statistic  means, percentiles, Jain's index, confidence intervals
"""
