"""Commands of administrators.

move                 from one machine to a cluster
clusters             other clusters that get jobs, and why one gets none
queue                create, edit, drain and delete queues
node_group_findings  whether the providers of node groups answer, and list nodes that never joined
doctor               the rules that a cluster enforces, its problems, and how to solve them
"""
