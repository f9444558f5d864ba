"""Commands of administrators.

move                 move queues, accounts and jobs from one machine to a cluster
clusters             show the other clusters to which jobs are sent, and why one of them gets no jobs
queue_change         make a change of one queue, or preview the effect of the change on jobs
queue                create, edit, drain and delete queues
node_group_findings  check that the providers of node groups respond; list their nodes that never joined
cluster_findings     check the other clusters to which jobs are sent, and unfinished moves to another cluster
doctor               report the rules that a cluster enforces, its problems, and how to solve them
"""
