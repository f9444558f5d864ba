"""Commands that start something.

multi_prog      the program of each task of srun --multi-prog
srun_programs   srun's own prolog and epilog
srun_streams    the files of srun's options
srun_variables  variables that stand for options of srun
salloc          an allocation, and a command in it
sbatch          a script
srun            a step
"""
