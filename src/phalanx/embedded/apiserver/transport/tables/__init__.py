"""The tables that `kubectl get` prints.

printer         columns, and cells that several kinds share, such as ages
core_rows       the cells of nodes, services, events and volumes
pod_row         the row of a pod
workload_rows   the cells of Jobs, Deployments and other workloads
printers        the columns and cells of each kind
documentation   the documentation of columns
table           converts a list of objects into a Table
"""
