"""Accounting: every job that Phalanx ran, in a database that outlives the jobs' objects.

schema      the tables of the database, and the migrations from older versions
entry       the record of a job and of each of its starts; entries in a compressed file: written, and read back
selection   the conditions of a query for jobs
store       a ledger in SQLite or PostgreSQL: written, read, purged
accountant  from events and decisions to entries
usage       resource use of jobs, summed per user, account, queue or day; the run times of ended jobs, for forecasts
accounted   a world whose jobs are in the ledger before they start
"""
