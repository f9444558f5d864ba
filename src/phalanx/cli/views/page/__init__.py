"""The contents of the page of `phalanx dashboard`, made from a snapshot.

sooner     changes that could start a job sooner, each played forward
rows       a snapshot as rows
following  the cluster, followed by watch
study      a state from a simulation or a recording, as a file
agents     what viewers do by their own credentials
"""
