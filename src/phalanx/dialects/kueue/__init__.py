"""The Kueue dialect: it reads Kueue's queues and its labels on jobs, and writes Kueue's Workloads (API group
`kueue.x-k8s.io`, v1beta1 and v1beta2).

Parts, lowest first:

    kinds         Kueue's kinds, and the names of its queues in the queue tree
    gangs         labels and annotations of jobs and pods, as Phalanx options
    provisioning  ProvisioningRequests, with which an AdmissionCheck asks an autoscaler for nodes
    tree          Kueue's definitions as queues of the queue tree
    answers       Workloads, and the status of the definitions
    events        the events on Workloads and jobs
    policies      admission policies in place of Kueue's webhooks
    fields        the use of every field
    dialect       all parts as a `frame.Dialect`
"""
