"""The fixtures of the engine tests."""

from tests.unit.engine.conftest import folders, neo, prefixes, target, targets

__all__ = ["folders", "neo", "prefixes", "target", "targets"]
