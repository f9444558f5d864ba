"""Steps within an allocation: what of it is free, and their tasks, here or on the pods of the allocation.

booking     which step has which number, and which CPUs steps hold
layout      which task runs on which node
multi_prog  which program each task runs
memory      whether the kernel ended a task for want of memory
interrupts  what srun's signals do to its step
report      what is said of tasks that went wrong
records     what is known of each step afterwards
tasks       the processes of a step beside the script
pods        steps on the pods of an allocation
"""
