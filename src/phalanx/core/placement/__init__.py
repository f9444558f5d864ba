"""Choose the nodes of a gang. A gang gets nodes for its whole minimum, or no node at all.

As in kube-scheduler, nodes are filtered, then scored. Unlike kube-scheduler, Phalanx places all pods of a gang
together. They are placed on a *draft*: a view of the free capacity with an undo log, made for one cycle.

Parts, lowest first:

    filters/       the nodes that a pod may use, and how many such pods each node holds
    packing_order  the nodes in packing order, stored from cycle to cycle
    draft          one cycle's free capacity, with an undo log
    capacity       for which gangs of one role there is capacity, as far as counting can show it
    scoring/       the choice among the nodes that passed the filters
    topology       domains of nodes; packed, balanced, and in slices
    packing        several roles on nodes, and a bounded exact search
    gang           the gang: its minimum, then as many further pods as fit
    replacement    pods of a started gang that need a node again"""
