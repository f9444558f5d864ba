"""The cluster that the commands use: its API server, its configuration and its accounting database.

api        a blocking client of the API server with a short import time; concurrent calls over several connections;
           lists of the jobs and pods of all users
ledger     read the ledger (the accounting database), with few imports
admission  admission policies by which the API server enforces the rules of accounts
site       the site: its partitions, accounts, users and defaults
conf       translate slurm.conf and gres.conf, line by line
"""
