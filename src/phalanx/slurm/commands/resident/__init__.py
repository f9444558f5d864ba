"""A service that starts Slurm's commands faster. The service imports all commands once, and runs each call in a forked
child process.

caller    the first part of an installed command: it passes the call to the service if the service runs
compiled  compile the same caller in C when the commands are installed
call      run one call in a child process, with the user and the rights of its caller
service   accept connections, and fork a child process for each call
"""
