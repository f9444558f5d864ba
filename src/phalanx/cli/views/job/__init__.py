"""Build what users see of a job: a row of `phalanx jobs`, and the page of `phalanx explain`.

job_view        `JobView`, the value from which rows and pages are made; rows; texts about expected starts
reading         make a `JobView` of each job in a snapshot
job_page        the page of one job
looking         get the rows of all jobs, from the scheduler or computed by the command
served          rows of jobs and queues and pages of jobs, which the scheduler serves from its own state
"""
