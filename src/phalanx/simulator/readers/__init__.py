"""Traces in the formats of others.

lines      where a trace is wrong: file, line and column
gpus       jobs that say how many GPUs they want and no more
chronus    Chronus (SoCC'21)
muri       Muri (SIGCOMM'22)
openb      Alibaba's cluster-trace-gpu-v2023
philly     Microsoft's Philly
swf        the Standard Workload Format
recognise  which format a file has
"""
