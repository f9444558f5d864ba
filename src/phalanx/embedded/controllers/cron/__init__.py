"""CronJobs.

schedule     when a schedule is due
controller   Jobs made when they are due, and cleared away
"""
