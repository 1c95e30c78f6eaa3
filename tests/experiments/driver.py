"""The command ``python -m experiments`` with the tiny study.

Torch and the environment are replaced, because only the effects of signals are tested.
"""

import os
import signal
import sys
from types import SimpleNamespace

from conftest import make_environment

from experiments import registry
from experiments.__main__ import command
from experiments.cluster import submit
from experiments.commands import forecast
from experiments.machine import environment, runtime

# Test runs that were started in the background ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
runtime.start_torch = lambda device, threads: sys
# Otherwise the forecast would add the smallest and largest case to the log.
forecast._time_kinds = lambda *_: {}
environment.gather = lambda torch, device, threads, *, name: make_environment(name=name)
pause = submit.time.sleep
submit.time = SimpleNamespace(sleep=lambda seconds: pause(seconds / 10))
submit.PROGRAM = (sys.executable, __file__)
registry.STUDIES["tiny"] = os.environ.get("TINY_STUDY", "tiny_study")
sys.exit(command())
