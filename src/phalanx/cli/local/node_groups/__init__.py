"""Node groups, as users write them.

provider_fields  the providers that a file may name, and their fields; labels, taints and resources that a Node may
                 have
file             in a file for `phalanx scheduler` and `phalanx up`
cloud_fields     what cloud providers state about their groups
slurm_conf       a file of the cloud nodes of a slurm.conf
providers        the groups of a file, with their providers
option           in an option of a command: simulated groups; the groups of `phalanx up`
"""
