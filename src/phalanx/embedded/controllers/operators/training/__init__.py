"""PyTorchJobs: `pods` (from replica specs), `definition` (the kind), `status` (from pods), `controller`."""
