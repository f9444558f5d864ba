"""What makes Jobs, pods that are kept running, what finds these, and what they keep.

schedule      when a schedule is due
cron_job      Jobs made when they are due, and cleared away
replica_set   so many pods of a template
rollout       how many pods of each template a Deployment wants now
deployment    ReplicaSets, one for each template
stateful_set  pods that keep their names
endpoints     the addresses that a Service stands for
service       Endpoints and EndpointSlices, kept true
volumes       claims and the volumes that they are bound to
"""
