"""The demo: six applications deadlock if they are scheduled pod by pod, and all finish if they are scheduled as gangs.

This package uses the API only and imports no other part of Phalanx, so any user can do what the demo does.
"""
