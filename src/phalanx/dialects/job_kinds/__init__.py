"""Present the jobs of batch frameworks to Phalanx as batch/v1 Jobs, one Job for each role (for example one for the
launcher and one for the workers).

Parts, lowest first:

    form              the protocol of a framework's kind, and merge patches of its spec
    replica_types     kubeflow.org: PyTorchJob and similar kinds, and MPIJob
    job_set           JobSet
    train_job         TrainJob, through the JobSet that its operator creates
    ray               RayCluster, RayJob and RayService
    spark             SparkApplication
    sent_volcano_job  Volcano's Job, if another cluster runs it
    appwrapper        AppWrapper (workload.codeflare.dev, mcad.ibm.com), which wraps other objects; its dialect
    supported         all supported kinds
"""
