"""Backfill: decide which waiting jobs get a reservation, and which other jobs may start now without delaying one.

Parts, lowest first:

    advance           advance reservations and maintenance: nodes that are closed to a job for a time
    shadow_time       the earliest start of a gang, from the expected ends of running jobs
    ends              the ends of running jobs and of the cycle's grants
    pod_division      divides the pods of a job so that the first reservation still fits
    one_node          the shadow time on a cluster of one node
    profile           free capacity over time, with all reservations: conservative backfill; the profile of a cluster
                      of one node
    reservation       the reservations of a cycle (EASY, conservative), and whether a job delays one"""
