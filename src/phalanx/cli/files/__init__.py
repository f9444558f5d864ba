"""Read the files that users write, and recordings. Error messages name the file and the line.

configuration_file  a queue configuration of YuniKorn, or the ConfigMap that contains one
placed_file         YAML or JSON, with the line number of each value
policy_file         the scheduling policy of the cluster, with or without queues, as YAML or as Python
rendezvous          the service and the environment variables by which the pods of one job find each other
manifest            Kubernetes objects, from files or from a command line
shipped             the files that come with Phalanx (examples, manifests), and the Helm chart
recording           the events and the decisions of a scheduler, step by step
"""
