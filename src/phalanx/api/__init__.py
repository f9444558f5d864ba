"""The Python interface of Phalanx for scripts and notebooks: `import phalanx`.

values    the values that the calls return: jobs, queues and results, which notebooks show as tables
cluster   the cluster that the calls use
simulation  simulations of a log or a workload file
aio       the calls as coroutines
blocking  the same calls as ordinary functions, which wait for the result
"""
