"""The ledger, read without what takes long to import.

fetched  rows that the API server shows, in a database of the command's own
book     a ledger, open for reading
shown    which rows and words of a ledger the API server shows a user
"""
