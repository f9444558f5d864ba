"""ProvisioningRequests: nodes that an autoscaler finds for a Workload with reserved quota.

Parts, lowest first:

    configs   ProvisioningRequestConfigs
    requests  ProvisioningRequests and their PodTemplates; the answers about them; the state of an AdmissionCheck,
              from the conditions of its ProvisioningRequest
"""
