"""AppWrapper (`workload.codeflare.dev`, v1beta2 and MCAD's v1beta1, which was of `mcad.ibm.com` before): objects that
are created together, when all their pods have a place.

Rooms, lowest first:

    kinds          its kind, and the words on it
    pod_sets       the templates of pods in what it wraps, and what each is created as
    generic_items  MCAD's AppWrapper in the shape of the newer one
    quota_trees    MCAD's trees of quotas as queues of our tree
    wrapping       what its controller is told of it
    job_form       an AppWrapper as Jobs, one for each set of pods, as the scheduler sees it
    admission      what its webhook does, as admission policies
    tables         what becomes of every field and annotation
    dialect        all of it, as `frame.Dialect`

`embedded.controllers.operators.appwrapper` creates what it wraps.
"""
