"""Start, watch and stop pods: `cause` (why a pod ended, as text), `disk` (disk usage), `cpus` (exclusive CPUs), `root`
(the files of images), `container` and `pod` (one of each, with a task), `agent` (all pods), `usage` (CPU and memory
usage), `server` (logs over HTTPS)."""
