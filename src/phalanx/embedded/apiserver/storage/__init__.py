"""The storage of the objects and of the history of their changes.

settings   the settings of a server: its data directory, and how much history it keeps
acknowledged  the names of the latest acknowledged writes, in a file next to the database
journal    the database file: each revision is written and synced before its writer gets a response
reserve    disk space that is reserved for deletions on a full disk
tally      the number and size of the objects of each namespace
store      objects in memory, by kind and namespace, and their latest events
watch      the watches, and the events that each of them gets
"""
