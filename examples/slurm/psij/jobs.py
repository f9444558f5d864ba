"""What a user of psij-python writes for a Slurm cluster: nothing here knows Phalanx."""

from datetime import timedelta
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
from psij.executors.batch.slurm import SlurmExecutorConfig

asks = SlurmExecutorConfig(queue_polling_interval=1, initial_queue_polling_delay=1)
executor = JobExecutor.get_instance("slurm", config=asks)


def job(*words: str, **more: object) -> Job:
    limit = JobAttributes(duration=timedelta(minutes=5))
    return Job(JobSpec(executable=words[0], arguments=list(words[1:]), attributes=limit, directory=Path.cwd(), **more))


two = ResourceSpecV1(process_count=2, cpu_cores_per_process=1)
good = job("/bin/echo", "well", stdout_path=Path("good.txt"))
bad = job("/bin/sh", "-c", "exit 3")
ranks = job("/bin/sh", "-c", "echo $SLURM_PROCID", stdout_path=Path("ranks.txt"), resources=two, launcher="srun")
endless = job("/bin/sleep", "600")
for each in (good, bad, ranks, endless):
    executor.submit(each)
endless.wait(target_states=[JobState.ACTIVE], timeout=timedelta(seconds=300))
endless.cancel()
ends = [each.wait(timeout=timedelta(seconds=300)) for each in (good, bad, ranks, endless)]
states = [end.state if end is not None else None for end in ends]
assert states == [JobState.COMPLETED, JobState.FAILED, JobState.COMPLETED, JobState.CANCELED], ends
assert ends[1].exit_code == 3, ends
assert Path("good.txt").read_text() == "well\n"
assert sorted(Path("ranks.txt").read_text().split()) == ["0", "1"]
print("jobs ended well, with code 3, of two ranks by srun, and cancelled, and were told so")
