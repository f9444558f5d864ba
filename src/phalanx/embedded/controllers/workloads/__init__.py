"""Controllers of CronJobs, of long-running pods, of Services and of volumes.

cron_job           create due Jobs, and delete old ones; the due times of a cron schedule
replica_set        a fixed number of pods of a template
deployment         ReplicaSets, one for each template; the present number of pods of each of a Deployment's templates
stateful_set       pods that keep their names
endpoints          the addresses of a Service; keep Endpoints and EndpointSlices up to date
volume_binding     bind claims to volumes
volume_protection  keep claims and volumes that are in use
"""
