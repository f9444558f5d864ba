"""What is done to jobs that run, and to reservations.

running       signals, suspending, requeueing
cancelling    marked and deleted, many at once
reservations  made, changed, shown, deleted
"""
