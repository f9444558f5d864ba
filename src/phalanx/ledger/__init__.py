"""Accounting: every job that Phalanx ran, in a database that outlives the jobs' objects.

entry       what is recorded of a job, and of each of its starts
schema      the tables, and how older ones become these
selection   which jobs are asked for
store       a ledger in SQLite or PostgreSQL: written, read, purged
accountant  from events and decisions to entries
past_runs   how long jobs ran, for forecasts
accounted   a world whose jobs are in the ledger before they start
archive     entries in a file of their own: written, and read back
usage       what jobs took, summed per user, account, queue or day
"""
