"""Publish the state of queues and gangs for other programs, and save state for the next scheduler process. The parts:

usage                 past usage, kept in a ConfigMap
dependency_outcomes   outcomes of dependencies, kept on the dependent jobs
queue_status          the status of Queue objects
told                  the view of a gang for dialects
gang_views            the views of all gangs that dialects have
dialect_reports       metrics, API paths and Events that other schedulers have as well
answer_writer         write one answer of a dialect
dialect_answers       write the statuses and objects of dialects, as gangs and definitions change
unattended_pods       report pods whose scheduler seems not to run
"""
