"""The contents of the page of `phalanx dashboard`, made from a snapshot.

future      when waiting jobs are expected to start, and where: the cycle, played forward
rows        a snapshot as rows
past        the ledger as rows
sooner      changes that could start a job sooner, each played forward
following   the cluster, followed by watch
study       a state from a simulation or a recording, as a file
agents      what viewers do by their own credentials
"""
