"""The tables that `kubectl get` prints.

printer         columns and cells; ages as people read them
core_rows       rows of the core group and its neighbours
pod_row         the row of a pod
workload_rows   rows of workloads
printers        all of them, by kind; rows of what drivers of volumes and devices publish
documentation   what columns are documented with
table           a list as a Table
"""
