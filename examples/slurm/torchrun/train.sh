#!/bin/bash
#SBATCH --job-name=train --nodes=1 --ntasks-per-node=1 --cpus-per-task=2 --mem=4G --time=10
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node="$SLURM_CPUS_PER_TASK" \
    --rdzv-id="$SLURM_JOB_ID" --rdzv-backend=c10d --rdzv-endpoint="$first:$((20000 + SLURM_JOB_ID % 10000))" "$1"
