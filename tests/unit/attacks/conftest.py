"""The fixtures of the engine tests."""

from tests.unit.engine.conftest import device, folders, neo, prefixes, target, targets, targets_on

__all__ = ["device", "folders", "neo", "prefixes", "target", "targets", "targets_on"]
