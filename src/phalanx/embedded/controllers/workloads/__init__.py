"""Controllers of CronJobs, of long-running pods, of Services and of volumes.

schedule      the due times of a cron schedule
cron_job      create due Jobs, and delete old ones
replica_set   a fixed number of pods of a template
rollout       the present number of pods of each of a Deployment's templates
deployment    ReplicaSets, one for each template
stateful_set  pods that keep their names
endpoints     the addresses of a Service
service       keep Endpoints and EndpointSlices up to date
volumes       claims and their volumes
"""
