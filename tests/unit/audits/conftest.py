"""The fixtures of the engine tests."""

from tests.unit.engine.conftest import device, fail_passes, folders, neo, prefixes, target, targets, targets_on

__all__ = ["device", "fail_passes", "folders", "neo", "prefixes", "target", "targets", "targets_on"]
