"""The cluster that commands speak of.

api        calls to the API server, blocking, from what is imported in a moment; HTTP on one connection; calls for
           many things at once, over several connections; lists of the jobs and pods of all users
ledger     the ledger, read without what takes long to import
admission  admission policies by which the API server enforces the rules of accounts
site       partitions, accounts, users and defaults
conf       slurm.conf and gres.conf, line by line
"""
