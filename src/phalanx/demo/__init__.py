"""The demo: six applications deadlock if they are scheduled pod by pod, and all finish if they are scheduled as gangs.

This package only uses the Kubernetes API, through `phalanx.client`. So any user can do the same without Phalanx's code.
"""
