"""What `kubectl get` prints.

duration        ages as people read them
printer         columns and cells
core_rows       rows of the core group and its neighbours
pod_row         the row of a pod
workload_rows   rows of workloads
driver_rows     rows of what drivers of volumes and devices publish
printers        all of them, by kind
documentation   what columns are documented with
table           a list as a Table
"""
