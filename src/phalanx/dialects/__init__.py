"""Read the objects that users write: Phalanx's own queues and settings, and the objects of other schedulers' APIs. A
*dialect* is the part of Phalanx that reads the objects of one other scheduler's API and writes their status.

Parts, lowest first:

    schema          Phalanx's own queues, flavors, reservations, policies and recordings, as users write them
    frame           the definition of a dialect, and code that several dialects share
    job_kinds       the job kinds of training and data frameworks, and AppWrapper
    kube_scheduler  kube-scheduler's own gangs, and schedulers built on it: scheduler-plugins, Koordinator
    kueue           kueue.x-k8s.io
    yunikorn        YuniKorn's queue configuration, and its labels and annotations on pods
    kai             scheduling.run.ai
    volcano         batch.volcano.sh, scheduling.volcano.sh
    enabled         all dialects by name
"""
