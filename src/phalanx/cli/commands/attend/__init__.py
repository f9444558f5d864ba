"""Jobs that exist: their output, their end, and what may be done with them.

logs    the output of a job
"""
