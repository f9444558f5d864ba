"""Files that people write, and recordings. An error names the file and the line.

configuration_file  a queue configuration of YuniKorn, or the ConfigMap that holds it
placed_file         YAML or JSON, with the line of everything in it
policy_file         the settings of the whole cluster; a policy whose priorities a Python function computes; a policy
                    and its queues
rendezvous          how the pods of one job find each other
manifest            Kubernetes objects, from files or from a command line
shipped             the files that come with Phalanx, and the Helm chart
recording           the events and the decisions of a scheduler, step by step
"""
