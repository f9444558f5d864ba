"""The data that the page of `phalanx dashboard` shows, made from a snapshot of the cluster.

sooner     changes that could start a job sooner, each with a simulation of its effect
rows       convert a snapshot, and entries of the ledger, to rows of the page
cached_snapshot  make a snapshot of objects that caches hold
past_jobs  past jobs, read from the ledger
unwatched  the facts that no watch reports: the policy, past usage, run times, the leader's Lease
following  keep the data up to date by watching the cluster
study      write and read files with the state of a simulation or recording
agents     requests that viewers make with their own credentials
entrance   the options for a page with several viewers
"""
