"""Schedules.

schedule   when each job started and ended, and what it held
sweep      a schedule, change by change
statistic  means, percentiles, Jain's index, confidence intervals
"""
