"""Who has a reservation because there is no capacity for it now, and who may start beside it.

Rooms, lowest first:

    advance           advance reservations and maintenance: nodes that are closed to a job for a time
    shadow_time       the earliest start of a gang, from when running jobs are expected to end
    ends              when what runs, and what the cycle has granted, is over
    beside            how a job is spread so that the first reservation still fits
    one_node          the same where there is but one node
    profile           free capacity over time, with every reservation in it: conservative backfill
    one_node_profile  the same where there is but one node
    reservation       the cycle's reservations: EASY and conservative backfill
"""
