"""Reading the pipes of a worker on a node."""

import os
import selectors

from harness.cluster.worker_host import _chunks


def test_a_pipe_that_was_closed_is_not_waited_for_again() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with selectors.DefaultSelector() as selector:
        selector.register(reading, selectors.EVENT_READ)
        os.write(writing, b"last words")
        assert [*_chunks(reading, selector)] == [b"last words"] and selector.get_map()
        os.close(writing)
        assert [*_chunks(reading, selector)] == [] and not selector.get_map()
    os.close(reading)
