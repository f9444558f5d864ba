"""The cluster that commands speak of.

api   calls to the API server, blocking, from what is imported in a moment
site  partitions, accounts, users and defaults
"""
