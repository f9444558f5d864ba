"""Commands for accounting.

table     tables as these commands print them
sacct_fields  the fields of sacct
sacct_document  the JSON of sacct
sacct     jobs that ran
entities/  what sacctmgr adds, changes and deletes
sacctmgr_files  dump and load of sacctmgr
sacctmgr  accounts, users, QOS
sreport   what accounts and users took of the cluster
sshare    shares and fair-share factors
"""
