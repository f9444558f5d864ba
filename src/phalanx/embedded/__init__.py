"""A Kubernetes for one machine. Its API server, controllers and node agent communicate only through the API, as on a
real cluster.

trees         remove folders with any content that users may have created in them
endless       run a task again after an unexpected error
apimachinery  the common base of all APIs: types, metadata, expressions, patches; it uses no storage and no network
apiserver     store objects, and serve them to clients
controllers   the controllers of kube-controller-manager, and of some operators
login         give Unix users of this machine access to its cluster
node          the work of a kubelet: run pods as processes of this machine, or simulate nodes
"""
