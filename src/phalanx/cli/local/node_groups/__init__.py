"""Read the node groups that users describe in files and options.

provider_fields  the fields of the providers in a file; checks of labels, taints and resources
file             the file of `--node-groups`
cloud_fields     read fields of a group from its cloud provider
slurm_conf       make a file of node groups from the cloud nodes of a slurm.conf
annotation_fields  read fields of a group from annotations of its MachineDeployment or MachineSet
backends         create the backend that calls a cloud provider, programs or a web server
providers        create the provider of each group
option           simulated groups from the option `--node-group`; all groups of `phalanx up`
"""
