"""Handle ProvisioningRequests. With a ProvisioningRequest, Kueue (here Phalanx) asks an autoscaler for nodes for a
Workload whose quota is reserved.

Parts, lowest first:

    configs   ProvisioningRequestConfigs
    requests  ProvisioningRequests and their PodTemplates; the answers about them; the state of an AdmissionCheck,
              from the conditions of its ProvisioningRequest
"""
