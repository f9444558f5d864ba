"""Kinds of batch workloads: `indexes` (sets of completion indexes), `spec` and `status` of Jobs, `job` (the strategies
of Jobs and CronJobs), and `pod_group` (Workloads and PodGroups)."""
