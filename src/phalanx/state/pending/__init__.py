"""The jobs that wait: in lines of those that ask the same, and what each line waits for.

Rooms, lowest first:

    alarms    jobs to look at when a time comes
    line      pending requests that ask the same, in order
    ordered   a sorted collection, kept in blocks
    bars      lines that wait for quota, by how much must be given back
    heeding   lines that wait for pods of others to come or go
    hunting   lines that search for victims
    sleepers  lines that backfill knows of though nothing changes for them
    watching  lines that wait for capacity, by how much must become free
    turns     lines of many queues that ask for the same capacity, in order
    waiting   all of these together
"""
