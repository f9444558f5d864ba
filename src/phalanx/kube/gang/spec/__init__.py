"""Build the core's `Job` of a gang from the gang's members (its Jobs and bare pods).

Parts, lowest first:

    declared_roles  roles and groups of bare pods that a dialect declares; capacity held for pods that a driver
                    creates later
    job_options     the scheduling options of a job, from labels and annotations
    elsewhere       jobs that run in another cluster
    members         the members of a gang, and the sources of the pods of its roles
    blocked         why a gang cannot be planned yet: a member is held, or members are missing
    gang_spec       the `Job` of the members: its roles, its minimum, and why it must wait
"""
