"""Commands that start something.

srun_options    the program of each task of srun --multi-prog; srun's own prolog and epilog; the files of srun's
                options; variables that stand for options of srun
srun_step       a step of srun: its number, record, environment and exit code
srun_in_pod     a step in the pod of srun itself
srun_in_allocation  a step on the pods of an allocation
salloc          an allocation, and a command in it
sbatch          a script
srun            a step, with its command line
"""
