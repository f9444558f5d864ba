"""What makes Jobs, and pods that are kept running.

schedule      when a schedule is due
cron_job      Jobs made when they are due, and cleared away
replica_set   so many pods of a template
rollout       how many pods of each template a Deployment wants now
deployment    ReplicaSets, one for each template
"""
