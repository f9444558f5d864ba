"""Build the views of a job: a row of `phalanx jobs`, and the page of `phalanx explain`.

job_view        `JobView`, the value from which rows and pages are made; rows; texts about expected starts
ended           make a `JobView` of each job that has ended
gang_facts      find facts of a live job in its gang: its creator, its present state, its time limit, other clusters
reading         make a `JobView` of each job in a snapshot
job_page        the page of one job
looking         get the rows of all jobs, from the scheduler or computed by the command
present         the scheduler's present state as a snapshot
served          serve rows of jobs and queues, and pages of jobs, from the scheduler's own state
explanation     find the explanation of a job: get it from the scheduler, or compute it from a snapshot
"""
