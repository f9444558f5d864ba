"""The shim: the parent process of a container's program. It continues after the end of the agent, and imports only this
package of Phalanx.

fork_server  start shims for the agent, each by a fork of a resident process
record       the files of a shim, and the identity of a process
streams      the program's input and output
syscalls     system calls that Python does not have
privileges   the user, groups and capabilities of a program
root         the files of an image as the program's root
namespaces   the namespaces of the program
program      from the fork to the exec of the program
supervisor   run a shim, from the start of the program to the record of its end
"""
