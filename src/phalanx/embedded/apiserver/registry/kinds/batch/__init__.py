"""Jobs: `indexes` (sets of completion indexes), `spec`, `status`, `job` (the strategy of the kind), `pod_group`
(Workloads and PodGroups)."""
