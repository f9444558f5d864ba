"""What is done to jobs that run, and to reservations.

running       signals, suspending, requeueing
reservations  made, changed, shown, deleted
"""
