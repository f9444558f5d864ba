"""Move a cluster's queues, accounts, ledger and waiting jobs to another cluster (docs/decisions/0075-moving.md).

portable      convert an object so that another cluster can create it, and check whether that cluster has it
ends          connect to both clusters, and refuse clusters between which a move is impossible
selection     choose the jobs that move, and give the reasons why the other jobs stay
images        give jobs that run programs of this machine a container image
surroundings  copy the objects that jobs need: namespaces, queues, accounts, rights, Secrets
belongings    copy the objects that belong to single jobs, and set their owners
past          copy the past usage and the ledger
transfer      move the jobs, so that each job is in exactly one cluster even if the move is interrupted
obstacles     give the reasons why the target cannot accept a job
"""
