"""Steps within an allocation: the free resources of the allocation, and the tasks, on this pod or on other pods.

booking     the numbers of steps, and the CPUs that steps hold
layout      the node of each task
around_task  the programs before and after each task
interrupts  the effect of signals to srun on its step
records     the record of each step, for the ledger; detect tasks that the kernel killed because memory ran out
report      srun's messages about failed tasks
tasks       the processes of a step beside the script
pods        steps on the pods of an allocation
"""
