"""`slurm/submission/asked/size.py`: what nodes a job may have, and whether they can ever give what it asks."""

from __future__ import annotations

from phalanx.slurm.commands.launch import sbatch
from phalanx.slurm.submission import manifest
from phalanx.slurm.submission.asked.request import request
from tests.slurm.test_command_lines import SITE, _nodes


def test_a_gpu_type_is_asked_of_the_nodes_that_have_it() -> None:
    said, _ = sbatch._READER.read(["--gres=gpu:a100:1"])
    asked = request(dict(said), SITE, _nodes(), None, [], "").ask
    pod = manifest.job(1, asked, SITE, {}, [])["spec"]["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    wanted = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-A100-SXM4"]}
    assert terms == [{"matchExpressions": [wanted]}]
