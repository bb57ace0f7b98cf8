"""Parse Python source from any thread, without running it."""

import ast
import threading
import warnings

# CPython before 3.11.7 and 3.12.1 keeps the recursion depth of the parser in one place for all threads, so that two
# threads that parse at once can end in a SystemError (python/cpython#106905).
_PARSER_LOCK = threading.Lock()


def syntax_tree(source: bytes | str) -> ast.Module:
    """Return the syntax tree of `source`.

    Raises SyntaxError, ValueError, RecursionError or MemoryError if it is not a program.
    """
    with _PARSER_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except SystemError:
            # The lock does not stop other libraries, which may have been parsing at the same time.
            return ast.parse(source)
