"""From the spec of a pod, or of a pod template, to the `Shape` of the pods that come of it.

Parts, lowest first:

    pod_requests    what a pod costs its node
    pod_affinity    affinity to pods, topology spread, host ports, shares of devices
    node_affinity   node selector, node affinity, tolerations; fields that are not supported
    pod_shape       all of that together, remembered by content
    volumes         what volume claims mean for where a pod may run
    admission       what LimitRanges, RuntimeClasses and PriorityClasses add to a template
"""
