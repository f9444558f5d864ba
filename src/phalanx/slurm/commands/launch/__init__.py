"""Commands that start something.

srun_options    the program of each task of srun --multi-prog; srun's own prolog and epilog; the files of srun's
                options; variables that stand for options of srun
salloc          an allocation, and a command in it
sbatch          a script
srun            a step
"""
