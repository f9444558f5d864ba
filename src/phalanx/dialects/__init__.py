"""Readers of written objects: Phalanx's own queues and settings, and the APIs of other schedulers.

Parts, lowest first:

    schema             Phalanx's own queues, flavors, reservations, policies and recordings, as users write them
    frame              what a dialect is, and code that several dialects share
    frameworks         the job kinds of training and data frameworks
    appwrapper         workload.codeflare.dev, mcad.ibm.com
    job_kinds          all supported job kinds of frameworks
    kubernetes         scheduling.k8s.io: Kubernetes' own gangs
    kueue              kueue.x-k8s.io
    yunikorn           YuniKorn's queue configuration, and its labels and annotations on pods
    scheduler_plugins  scheduling.x-k8s.io
    koordinator        koord-scheduler
    kai                scheduling.run.ai
    volcano            batch.volcano.sh, scheduling.volcano.sh
    enabled            all of them by name
"""
