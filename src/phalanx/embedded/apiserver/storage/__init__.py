"""The objects, and the history of their changes.

settings   what a server is told: its data directory, and how much of the past it keeps
acknowledged  the names of the latest acknowledged writes, beside the database
journal    every revision on disk, written and synced before it is acknowledged
reserve    room on the disk that is given up for deletions when there is no other
tally      the number and size of the objects of each namespace
store      objects in memory, by kind and namespace, and their latest events
watch      events as one watcher sees them
"""
