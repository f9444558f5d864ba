"""What a user of simple-slurm writes for a Slurm cluster: nothing here knows Phalanx."""

from datetime import timedelta
from pathlib import Path

from simple_slurm import Slurm

slurm = Slurm(
    array=range(3),
    job_name="parts",
    output=f"{Slurm.JOB_ARRAY_MASTER_ID}_{Slurm.JOB_ARRAY_ID}.txt",
    time=timedelta(minutes=5),
)
array = slurm.sbatch(f"echo part {Slurm.SLURM_ARRAY_TASK_ID}")
last = Slurm(dependency={"afterok": array}, output="all.txt", wait=True)
last.sbatch(f"cat {array}_*.txt")
assert Path("all.txt").read_text() == "part 0\npart 1\npart 2\n", Path("all.txt").read_text()
assert Slurm(ntasks=2).srun("test -n $SLURM_PROCID") == 0
held = Slurm(job_name="held", hold="").sbatch("true")
held_jobs = Slurm().squeue
held_jobs.update_squeue()
assert str(held) in {str(number) for number in held_jobs.jobs}, held_jobs.jobs
Slurm().scancel.cancel_job(held)
print("an array, a job that depends on it, srun with two tasks, squeue and scancel did as they should")
