"""Readers of traces in published formats.

lines      read the records of a file, and report errors with file, line and column; divide GPUs among pods
chronus    Chronus (SoCC'21)
muri       Muri (SIGCOMM'22)
openb      Alibaba's cluster-trace-gpu-v2023
philly     Microsoft's Philly
swf        the Standard Workload Format
recognise  detect the format of a file
"""
