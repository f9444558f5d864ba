"""Commands for accounting.

sacct_fields    the fields and columns of sacct
sacct_document  build the JSON document of sacct --json
sacct           show jobs and steps from the ledger, the accounting database
entities/       the entities that sacctmgr lists, adds, changes and deletes
sreport_asked   read the conditions, the period and the units of a report
sacctmgr        list and change accounts, users and QOS
sreport         report the usage of the cluster by accounts and users
sshare          show shares, usage and fair-share factors
"""
