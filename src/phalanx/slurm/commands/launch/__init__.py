"""Commands that create jobs and start steps.

srun_options    the program of each task of srun --multi-prog; the programs of --prolog and --epilog; the files for the
                standard streams; environment variables that set options of srun
srun_step       a step of srun: its number, record, environment and exit code
srun_in_pod     run a step in the pod in which srun itself runs
srun_in_allocation  run a step on the pods of an allocation
salloc          create an allocation, and run a command in it
sbatch          submit a script
srun            read the command line of srun, and start a step
"""
