"""Change running jobs and advance reservations.

running       send signals to jobs; suspend, resume and requeue jobs
cancelling    cancel jobs, also many at once
reservations  create, change, show and delete reservations
"""
