"""The tree of accounts, and fair shares in it.

fair_tree    Slurm's Fair Tree
multifactor  Slurm's multifactor priority
limits       limits as sacctmgr writes them, and as queues have them
tables       what sacctmgr lists
tree         the site's accounts with what was used in them; changes carried to the queues
used         what jobs held in a period, by account and user
dump         the tree as a text, written and read
enforced     limits of QOS and users, looked at when a job comes
"""
