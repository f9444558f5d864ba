"""Change running jobs and advance reservations.

running       send signals to jobs; suspend, resume and requeue jobs
cancelling    cancel jobs, many at a time
reservations  create, change, show and delete reservations
"""
