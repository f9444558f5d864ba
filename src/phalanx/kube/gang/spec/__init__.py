"""From the members of a gang to the `Job` that stands for them.

Parts, lowest first:

    declared_roles  roles and groups of bare pods that a dialect declares; capacity held for pods that a driver
                    creates later
    job_options     what labels and annotations say about when and how a job runs
    elsewhere       jobs that run in another cluster
    gang_spec       which objects form which job, and what keeps it waiting
"""
