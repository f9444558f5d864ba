"""Read Kubernetes objects, and return them as values. The modules in this folder do no I/O and make no decisions.

Parts, lowest first:

    labels      every label and annotation that Phalanx reads or writes
    wire        the fields of pods and nodes that the watch decodes; times of the API
    fault_log   the errors of objects that cannot be read, and which of them have been logged
    records     the records of starts and the marks of preemptions, as annotations
    template/   converts the spec of a pod, or of a pod template, to the `Shape` of the pods
    workload/   batch/v1 Jobs, and training jobs shown as Jobs
    pod         a pod in the scheduler's terms, which is read once for each change
    node        nodes
    queue       queues, flavors and reservations
"""
