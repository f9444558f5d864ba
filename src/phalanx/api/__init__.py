"""Phalanx from Python: `import phalanx`, in scripts and notebooks.

values    jobs, queues and results, shown as tables in notebooks
aio       each call as a coroutine
blocking  the same calls, which wait for their answer
"""
