"""The command ``python -m experiments``, knowing the tiny study too, without starting torch.

Only torch and the environment are stood in for: what is tested is what signals leave behind.
"""

import sys

from conftest import make_environment

from experiments import registry
from experiments.__main__ import main
from experiments.harness import environment, runtime

runtime.start_torch = lambda device, threads: sys
environment.gather = lambda torch, device, threads: make_environment()
registry.STUDIES["tiny"] = "tiny_study"
sys.exit(main(sys.argv[1:]))
