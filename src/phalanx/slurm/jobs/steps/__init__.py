"""Job steps: srun runs the tasks of a step on the free resources of an allocation, in this pod or in other pods.

booking     give numbers to steps, and record the CPUs that steps hold
layout      choose the node of each task
around_task  run a program before and after each task (--task-prolog, --task-epilog)
records     write a record of each step for the ledger; detect tasks that the kernel killed because memory ran out
tasks       run the tasks of a step as processes in the pod of the script; handle signals to srun; print srun's
            messages about failed tasks
pods        run a step on other pods of the allocation, through a daemon in each pod
"""
