"""Commands for accounting.

sacct_fields    the fields of sacct
sacct_document  the JSON of sacct
sacct           jobs that ran
entities/       what sacctmgr adds, changes and deletes
sreport_asked   the conditions, the period and the units of a report
sacctmgr        accounts, users, QOS
sreport         what accounts and users took of the cluster
sshare          shares and fair-share factors
"""
