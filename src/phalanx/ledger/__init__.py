"""Accounting: a database (the *ledger*) with every job that Phalanx ran. Its records outlive the jobs' objects.

schema      the tables of the database, and the migrations from older versions
entry       the record of a job and of each of its starts; write entries to a compressed file, and read them back
selection   the conditions of a query for jobs
store       write, read and purge a ledger in SQLite or PostgreSQL
accountant  compute entries from events and decisions
usage       resource use of jobs, summed per user, account, queue or day; the run times of ended jobs, for forecasts
accounted   a wrapper of the scheduler's world that writes jobs to the ledger before they start
"""
