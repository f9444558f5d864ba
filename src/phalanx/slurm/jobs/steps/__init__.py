"""Steps within an allocation: the free resources of the allocation, and the tasks, on this pod or on other pods.

booking     the numbers of steps, and the CPUs that steps hold
layout      the node of each task
around_task  the programs before and after each task
records     the record of each step, for the ledger; detect tasks that the kernel killed because memory ran out
tasks       the processes of a step beside the script; the effect of signals to srun on its step; srun's messages
            about failed tasks
pods        steps on the pods of an allocation
"""
