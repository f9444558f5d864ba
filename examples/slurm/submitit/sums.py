"""What a user of submitit writes for a Slurm cluster: nothing here knows Phalanx."""

import submitit


def add(first: int, second: int) -> int:
    return first + second


def fail() -> None:
    raise ValueError("as it should")


executor = submitit.AutoExecutor(folder="logs/%j", cluster="slurm")
executor.update_parameters(timeout_min=5, cpus_per_task=1)
one = executor.submit(add, 2, 3)
many = executor.map_array(add, [1, 2, 3], [10, 20, 30])
bad = executor.submit(fail)
assert one.result() == 5
assert [job.result() for job in many] == [11, 22, 33]
assert "as it should" in str(bad.exception()), bad.exception()
print(f"a job, an array of {len(many)} and a failure came back from Slurm's commands")
