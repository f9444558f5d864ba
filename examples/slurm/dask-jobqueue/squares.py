"""What a user of dask-jobqueue writes for a Slurm cluster: nothing here knows Phalanx."""

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def square(number: int) -> int:
    return number * number


cluster = SLURMCluster(
    cores=1, processes=1, memory="500MB", walltime="00:10:00", interface="lo", log_directory="logs", local_directory="."
)
with cluster, Client(cluster) as client:
    cluster.scale(jobs=2)
    client.wait_for_workers(2, timeout=300)
    assert sum(client.gather(client.map(square, range(10)))) == 285
    cluster.scale(jobs=0)
    cluster.adapt(minimum_jobs=0, maximum_jobs=1)
    assert client.submit(square, 12).result(timeout=300) == 144
print("two workers came as Slurm jobs, went, and one came back for more work")
