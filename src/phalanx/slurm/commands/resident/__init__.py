"""Commands that are imported already: a service of the machine runs a call of `squeue` in a fork of itself.

caller    what the installed `squeue` is: it hands the call to the service, or returns to run it in its own process
compiled  the same caller in C, compiled at installation
call      one call, from the connection to the end of the command; a fork of the service becomes its caller
service   the socket, and the calls that run
"""
