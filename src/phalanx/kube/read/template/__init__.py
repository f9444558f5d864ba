"""Convert the spec of a pod, or of a pod template, to the `Shape` of the pods. (The *shape* of a pod is everything that
decides on which nodes the pod fits. Pods with equal shapes are interchangeable.)

Parts, lowest first:

    affinity        affinity to pods, topology spread, host ports, shares of devices; node selector, node affinity,
                    tolerations; fields that are not supported
    pod_shape       the shape of a pod, cached by the content of its spec; the requests of a pod
    volumes         the constraints on nodes that follow from a pod's volume claims
    admission       the additions of LimitRanges, RuntimeClasses and PriorityClasses to a template
"""
