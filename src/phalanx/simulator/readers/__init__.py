"""Readers of traces in published formats.

lines      the records of a file, and errors with file, line and column; also pods for jobs of which the trace has only
           the number of GPUs
chronus    Chronus (SoCC'21)
muri       Muri (SIGCOMM'22)
openb      Alibaba's cluster-trace-gpu-v2023
philly     Microsoft's Philly
swf        the Standard Workload Format
recognise  detect the format of a file
"""
