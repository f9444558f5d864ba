"""The tree of accounts, with the limits, the usage and the fair shares of accounts and users.

multifactor  compute Slurm's multifactor priority
limits       translate the limits of sacctmgr to the limits of queues
tables       the rows of `sacctmgr list`
tree         build the tree of accounts with past usage; copy changes of accounts to queues
used         sum the resources that jobs held in a period, by account and user
dump         write and read the file of `sacctmgr dump`
enforced     check limits of QOS and users when a job is submitted
"""
