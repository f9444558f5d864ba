"""Streams into pods: `kubectl exec`, `attach`, `cp` and `port-forward`, as the kubelet speaks them.

channels  one WebSocket as several channels: input, output, errors, sizes of a terminal
spdy      SPDY/3.1, as far as exec and port-forward need it
session   a command beside a running container, with pipes or a terminal; input for a container that has some
remote    exec and attach
forward   port-forward
"""
