"""The output of a container.

reading   read the log of one attempt, with the options of `kubectl logs`
kept      keep the logs of deleted pods
"""
