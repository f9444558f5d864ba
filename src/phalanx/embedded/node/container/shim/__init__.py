"""The parent of a container's process, which outlives the agent; no more of Phalanx is imported in it than this.

starting    how the agent starts one
record      what it leaves behind, and by what a process is known again
streams     what the program reads and writes
syscalls    calls of the kernel that Python does not have
privileges  as whom a program runs, and what it may
root        the files of its image as its root
namespaces  what it has of its own
program     from a fork to the program
supervisor  all of it, from the start to the record of the end
"""
