"""Characters that say something at a glance: the status of a run, and a line of values. No Textual here."""

from harness.runs.status import Status

GLYPHS = {
    Status.QUEUED: ("◌", "dim"),
    Status.STARTING: ("◐", "active"),
    Status.RUNNING: ("▶", "active"),
    Status.FINISHING: ("◑", "active"),
    Status.FINISHED: ("✓", "good"),
    Status.OUT_OF_TIME: ("⧗", "warning"),
    Status.STOPPED: ("■", "warning"),
    Status.CRASHED: ("✗", "bad"),
    Status.LOST: ("?", "bad"),
}
"""The glyph of each status, and the meaning that colours it."""
_BLOCKS = "▁▂▃▄▅▆▇█"


def spark(values: tuple[float, ...], highest: float = 100.0) -> str:
    """Return a line of block characters, one per value."""
    return "".join(_BLOCKS[min(7, max(0, int(value / highest * 8)))] for value in values)
