"""On which nodes a gang goes: whole, or not at all.

As in kube-scheduler, nodes are filtered, then scored; but for a gang at once, on a draft that can be taken back.

Rooms, lowest first:

    filters/     which nodes a pod may go to, and how many of them hold
    node_order   the nodes in packing order, kept from cycle to cycle
    draft        one cycle's free capacity, with an undo log
    capacity     for which gangs of one role there is capacity, by counting
    scoring/     which of the nodes that are left is taken
    topology     domains of nodes; packed, balanced, and in slices
    packing      roles onto nodes, and a bounded exact search
    gang         the gang: its minimum, then as much more as fits
    replacement  pods of a started gang that need a node again
"""
