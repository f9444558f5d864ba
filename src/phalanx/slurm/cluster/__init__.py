"""The cluster that commands speak of.

http       HTTP on one connection
api        calls to the API server, blocking, from what is imported in a moment
together   calls for many things at once, over several connections
ledger     the ledger, read without what takes long to import
sight      lists of the jobs and pods of all users
token      what the pods of a job may do with the API
admission  admission policies by which the API server enforces the rules of accounts
site       partitions, accounts, users and defaults
conf       slurm.conf and gres.conf, line by line
"""
