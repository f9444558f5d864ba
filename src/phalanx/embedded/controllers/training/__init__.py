"""PyTorchJobs: `definition` (the kind), `pods` (from replica specs), `status` (from pods), `controller`."""
