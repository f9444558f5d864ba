"""The AppWrapper dialect. An AppWrapper contains (*wraps*) the manifests of other objects, for example Jobs. They are
created together, as soon as the scheduler has capacity for all their pods.

Phalanx reads both generations of the kind: `workload.codeflare.dev/v1beta2`, and MCAD's v1beta1, whose API group was
`mcad.ibm.com` before.

Parts, lowest first:

    kinds          the kinds, and their labels and annotations
    pod_sets       finds the pod templates in the wrapped objects, and builds the objects to create
    generic_items  translates AppWrappers of the first generation (MCAD) into the form of the second
    quota_trees    translates MCAD's quota trees into Phalanx Queues
    wrapping       the functions that the controller of AppWrappers calls
    job_form       presents an AppWrapper to the scheduler as Jobs, one for each set of pods
    admission      the checks and changes of AppWrapper's webhook, as admission policies
    tables         the use of every field and annotation
    dialect        the interface that every dialect implements (`frame.dialect`), for AppWrapper

The controller `embedded.controllers.operators.appwrapper` creates the wrapped objects.
"""
