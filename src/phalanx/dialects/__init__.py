"""What others write, in our words: our own queues and settings as they are written, and other schedulers' APIs.

Rooms, lowest first:

    schema             our own queues, flavors, reservations, policies and recordings, as they are written
    frame              what a dialect is, and what several need
    frameworks         the job kinds of training and data frameworks
    appwrapper         workload.codeflare.dev, mcad.ibm.com
    job_kinds          all job kinds of others that are read, by kind
    kubernetes         scheduling.k8s.io: Kubernetes' own gangs
    kueue              kueue.x-k8s.io
    yunikorn           YuniKorn's queue configuration and its words on pods
    scheduler_plugins  scheduling.x-k8s.io
    koordinator        koord-scheduler
    kai                scheduling.run.ai
    volcano            batch.volcano.sh, scheduling.volcano.sh
    enabled            all of them by name
"""
