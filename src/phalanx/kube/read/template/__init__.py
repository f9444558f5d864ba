"""Convert the spec of a pod, or of a pod template, to the `Shape` of the pods. (The *shape* of a pod is everything that
decides on which nodes the pod fits. Pods with equal shapes are interchangeable.)

Parts, lowest first:

    affinity        affinity to pods, topology spread, host ports, shares of devices; node selector, node affinity,
                    tolerations; fields that are not supported
    pod_shape       all of that together, remembered by content; what a pod costs its node
    volumes         what volume claims mean for where a pod may run
    admission       what LimitRanges, RuntimeClasses and PriorityClasses add to a template
"""
