"""A Kubernetes for one machine. Its API server, controllers and node agent communicate only through the API, as on a
real cluster.

trees         remove folders, whatever files users left in them
endless       repeat a task that ended with an unexpected error
apimachinery  the base of every API: types, metadata, expressions, patches; no storage, no network
apiserver     store objects, and serve them to clients
controllers   the controllers of kube-controller-manager, and of some operators
login         make Unix users of this machine users of its cluster
node          the work of a kubelet: run pods as processes of this machine, or simulate nodes
"""
