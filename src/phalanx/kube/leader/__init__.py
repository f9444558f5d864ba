"""One scheduler at a time, and in time.

Parts, lowest first:

    steady_clock    the time of day, which never jumps
    stall_watch     what ran when the event loop was kept too long
    lease           the Lease, and the fence past which nothing is written
"""
