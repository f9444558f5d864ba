"""A job as people see it: in a row of `phalanx jobs`, and on the page of `phalanx explain`.

job_view        one job: the value that rows and pages are made of; when a waiting job is expected to start; the
                numbers that the cluster serves to a user about the user's own job; a row, and rows of an array's
                tasks as one
reading         the jobs of a snapshot
job_page        the page of one job
looking         the rows of all jobs, served or computed
served          rows and pages that the scheduler serves from its own state, also rows of queues
"""
