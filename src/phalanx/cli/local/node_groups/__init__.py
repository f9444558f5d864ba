"""Node groups, as users write them.

option           in an option of a command: simulated groups
names            labels, taints and resources that a Node may have
provider_fields  the providers that a file may name, and their fields
file             in a file for `phalanx scheduler` and `phalanx up`
machine_fields   what MachineDeployments state about their nodes
cloud_fields     what cloud providers state about their groups
slurm_conf       a file of the cloud nodes of a slurm.conf
providers        the groups of a file, with their providers
one_machine      the groups of `phalanx up`
"""
