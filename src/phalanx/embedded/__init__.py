"""A Kubernetes for one machine: three programs that talk to each other through the API only, as on a real cluster.

trees         folders removed, whatever users left in them
endless       work that goes on after a defect
apimachinery  the base of every API: types, metadata, expressions, patches; no storage, no network
apiserver     objects, kept and served
controllers   what kube-controller-manager does
login         Unix users of this machine, as users of its cluster
node          what a kubelet does: pods as processes of this machine, or simulated nodes
"""
