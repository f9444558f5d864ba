"""AppWrapper (`workload.codeflare.dev`, v1beta2 and MCAD's v1beta1, which was of `mcad.ibm.com` before): objects that
are created together, when all their pods have a place.

Parts, lowest first:

    kinds          its kind, and the words on it
    pod_sets       the pod templates in the wrapped objects, and the wrapped objects to create
    generic_items  translates MCAD's AppWrapper into the newer form
    quota_trees    translates MCAD's quota trees into Phalanx Queues
    wrapping       the functions that the controller of AppWrappers calls
    job_form       presents an AppWrapper to the scheduler as Jobs, one for each set of pods
    admission      the checks and changes of its webhook, as admission policies
    tables         the effect of every field and annotation
    dialect        the dialect itself, as `frame.Dialect`

The controller `embedded.controllers.operators.appwrapper` creates the wrapped objects.
"""
