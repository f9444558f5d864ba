"""The output of a container.

reading   the log of one attempt, as `kubectl logs` asks for it
kept      the logs of pods that are gone
"""
