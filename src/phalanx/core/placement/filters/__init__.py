"""Find the nodes that a pod may use, by the filters of kube-scheduler, as vector operations.

Parts, lowest first:

    matching  node selector, node affinity, taints, readiness; how many pods with given requests fit on each node
    devices   devices by name, shares of devices, NUMA zones
    affinity  pod affinity and anti-affinity, topology spread, host ports, preferences of pods for nodes; counts of pods
              by selector and topology domain
"""
