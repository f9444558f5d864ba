#!/bin/bash
#SBATCH --job-name=pi --ntasks=3 --mem=1G --time=10
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # only root needs these
mpirun python "$1"
