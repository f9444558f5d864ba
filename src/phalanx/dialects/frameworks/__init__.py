"""Job kinds of batch frameworks, each seen as one batch/v1 Job per role.

Rooms, lowest first:

    form           what a framework's kind is to us, and merge patches of its spec
    replica_types  kubeflow.org: PyTorchJob and its like, and MPIJob
    job_set        JobSet
    train_job      TrainJob, by the JobSet that is made for it
    ray            RayCluster and RayJob
    spark          SparkApplication
"""
