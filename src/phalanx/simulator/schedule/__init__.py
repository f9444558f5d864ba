"""Schedules.

schedule   the start, end and allocations of each job
sweep      a schedule, change by change
statistic  means, percentiles, Jain's index, confidence intervals
"""
