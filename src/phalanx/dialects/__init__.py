"""Readers of written objects: Phalanx's own queues and settings, and the APIs of other schedulers.

Parts, lowest first:

    schema          Phalanx's own queues, flavors, reservations, policies and recordings, as users write them
    frame           what a dialect is, and code that several dialects share
    job_kinds       the job kinds of training and data frameworks, and AppWrapper
    kube_scheduler  kube-scheduler's own gangs, and schedulers built on it: scheduler-plugins, Koordinator
    kueue           kueue.x-k8s.io
    yunikorn        YuniKorn's queue configuration, and its labels and annotations on pods
    kai             scheduling.run.ai
    volcano         batch.volcano.sh, scheduling.volcano.sh
    enabled         all dialects by name
"""
