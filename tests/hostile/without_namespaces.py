"""Run a command as on a machine without namespaces, such as most containers.

    python without_namespaces.py COMMAND...

A seccomp filter refuses the calls that create namespaces and mounts, as the default profiles of containers do.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_AT_NUMBER, _AT_FIRST_ARGUMENT = 0, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_COLUMN = {"x86_64": 0, "aarch64": 1}
_CLONE, _CLONE3 = (56, 220), (435, 435)
_REFUSED = (
    (272, 97),  # unshare
    (308, 268),  # setns
    (165, 40),  # mount
    (155, 41),  # pivot_root
    (429, 429),  # move_mount
    (442, 442),  # mount_setattr
)


def _program() -> bytes:
    """Return the filter as struct sock_filter[]."""
    column = _COLUMN[platform.machine()]
    refuse, unknown = (_RETURN, 0, 0, _FAIL | errno.EPERM), (_RETURN, 0, 0, _FAIL | errno.ENOSYS)
    steps = [(_LOAD, 0, 0, _AT_NUMBER)]
    for numbers in _REFUSED:
        steps += [(_EQUAL, 0, 1, numbers[column]), refuse]
    # The flags of clone3 are in memory. After ENOSYS, libraries fall back to clone.
    steps += [(_EQUAL, 0, 1, _CLONE3[column]), unknown]
    steps += [(_EQUAL, 0, 3, _CLONE[column]), (_LOAD, 0, 0, _AT_FIRST_ARGUMENT), (_ANY_BIT, 0, 1, _NAMESPACES), refuse]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


class _Filter(ctypes.Structure):
    """struct sock_fprog (linux/filter.h)."""

    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def main() -> None:
    """Apply the filter, and become the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = _program()
    filter_ = _Filter(len(program) // 8, program)
    for call in (
        lambda: libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        lambda: libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0),
    ):
        if call() != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
