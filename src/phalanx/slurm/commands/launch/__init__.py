"""Commands that start something.

salloc  an allocation, and a command in it
sbatch  a script
srun    a step
"""
