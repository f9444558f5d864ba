"""Controllers for CronJobs, for long-running pods, for Services and for volumes.

cron_job           create due Jobs, and delete old Jobs; compute the due times of a cron schedule
replica_set        keep a fixed number of pods of one template
deployment         create a ReplicaSet for each template of a Deployment, and change the numbers of their pods step by
                   step
stateful_set       keep pods with fixed names
endpoints          keep the Endpoints and EndpointSlices of Services up to date
volume_binding     bind claims to volumes
volume_protection  delay the deletion of claims and volumes that are in use
"""
