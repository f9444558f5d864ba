"""Publish the state of queues and gangs for other programs, and save state for the next scheduler process. The parts:

usage                 past usage, kept in a ConfigMap
dependency_outcomes   outcomes of dependencies, kept on the dependent jobs
queue_status          the status of Queue objects
told                  the *view* of a gang: its state in the form that dialects read
gang_views            the latest view of each gang of a dialect
dialect_reports       metrics, API paths and Events in the form that other schedulers have
answer_writer         write one answer of a dialect (an object or a status of another scheduler's API)
dialect_answers       write the statuses and objects of dialects, as gangs and definitions change
unattended_pods       report pods whose scheduler seems not to run
"""
