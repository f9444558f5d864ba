"""Publish state for other programs, and keep state for the next scheduler process. Parts:

usage                 past usage, kept in a ConfigMap
dependency_outcomes   outcomes of dependencies, kept on the dependent jobs
queue_status          the status of Queue objects
told                  the view of a gang for dialects
gang_views            the views of all gangs that dialects have
dialect_reports       metrics, paths and Events as other schedulers have them
answer_writer         write one answer of a dialect
dialect_answers       write the statuses and objects of dialects, as gangs and definitions change
unattended_pods       report pods whose scheduler seems not to run
"""
