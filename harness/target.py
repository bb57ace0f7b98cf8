"""The former name of `harness.engine`, which the copies of attacks in the runs of earlier versions import."""

import sys
from importlib import import_module

for _name in ("prompt_training", "prompt_tuning", "walk"):
    sys.modules[f"{__name__}.{_name}"] = import_module(f"harness.engine.{_name}")
