"""Move a cluster's queues, accounts, ledger and waiting jobs to another cluster (docs/decisions/0075-moving.md).

portable      an object as another cluster can create it, and whether it is there already
ends          both clusters: refused, if they cannot be moved from or to
selection     which jobs may move, and why the others stay
images        jobs of this machine's own programs, as jobs of an image
surroundings  what jobs need: namespaces, queues, accounts, rights, Secrets
belongings    the objects that belong to jobs, and their owners
past          usage and ledger
transfer      the jobs themselves: each in exactly one place, whenever the move is killed
"""
