#!/bin/bash
#SBATCH --job-name=train --nodes=1 --ntasks-per-node=2 --mem=4G --time=10
srun python "$1"
