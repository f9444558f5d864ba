"""Serve streams into pods, for `kubectl exec`, `attach`, `cp` and `port-forward`, with the protocols of the kubelet.

channels  use one WebSocket as several channels: input, output, errors, sizes of a terminal
spdy      the part of SPDY/3.1 that exec and port-forward need
session   run a command in a running container, with pipes or a terminal; send input to a container
remote    exec and attach
forward   port-forward
"""
