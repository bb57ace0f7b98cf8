"""The filter of system calls, as a program for the kernel; it knows nothing of who installs it or who listens.

A call that no attack needs is answered by whoever listens (so that it is known that it was tried), and where nobody can
listen by an error. Calls that honest libraries try in vain are refused without being named.
"""

import errno
import platform
import struct
from collections.abc import Iterable

from harness.sandbox.refusals import Refusal

_NUMBERS: dict[str, tuple[int, int | None]] = {
    # name: x86_64, aarch64 (asm/unistd_64.h, asm-generic/unistd.h)
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "clone3": (435, 435),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "clock_settime": (227, 112),
    "settimeofday": (164, 170),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_ALWAYS: dict[Refusal, tuple[str, ...]] = {
    Refusal.TRACING: ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"),
    Refusal.NAMESPACES: (
        *("setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount"),
        *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    ),
    Refusal.CLOCK: ("clock_settime", "settimeofday", "adjtimex", "clock_adjtime"),
    Refusal.KERNEL: (
        *("bpf", "perf_event_open", "add_key", "request_key", "keyctl", "io_uring_setup", "userfaultfd"),
        *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
        *("swapon", "swapoff", "quotactl", "quotactl_fd", "open_by_handle_at", "fanotify_init"),
        *("acct", "syslog", "vhangup", "sethostname", "setdomainname", "iopl", "ioperm"),
    ),
}
_SOMETIMES = {
    Refusal.NETWORK: ("socket", "socketpair"),
    Refusal.NAMESPACES: ("clone", "unshare"),
}
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32 = 0x40000000
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; NEWTIME is a signal's number to clone.
_NAMESPACE_FLAGS, _NEWTIME = 0x7E020000, 0x80
_SOCK_STREAM, _SOCK_SEQPACKET, _AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 5, 1, 2, 10, 16

# struct sock_filter (linux/filter.h) and struct seccomp_data (linux/seccomp.h).
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16
_ALLOW, _ASK, _FAIL = 0x7FFF0000, 0x7FC00000, 0x00050000

Instruction = tuple[int, int, int, int]


def is_known_machine() -> bool:
    """Whether this machine's system calls are the ones that the filter is written for."""
    return platform.machine() in _ARCHITECTURES


def refusals_by_number() -> dict[int, Refusal]:
    """Which refusal a system call stands for that somebody who listens is asked about."""
    column, _ = _ARCHITECTURES[platform.machine()]
    named = [(name, refusal) for table in (_ALWAYS, _SOMETIMES) for refusal, names in table.items() for name in names]
    return {number: refusal for name, refusal in named if (number := _NUMBERS[name][column]) is not None}


def filter_program(*, network: bool, is_heard: bool) -> bytes:
    """The filter as struct sock_filter[]: with `network`, Internet sockets are let through.

    `is_heard`: refusals ask a listener; else they fail at once.
    """
    column, architecture = _ARCHITECTURES[platform.machine()]
    refuse = _ASK if is_heard else _FAIL | errno.EPERM
    missing, quietly = _FAIL | errno.ENOSYS, _FAIL | errno.EACCES
    program: list[Instruction] = [
        (_LOAD, 0, 0, _AT_ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        # Another architecture's calls (i386 on x86_64) have other numbers, which nothing here looks at.
        (_RETURN, 0, 0, missing),
        (_LOAD, 0, 0, _AT_NUMBER),
    ]
    if platform.machine() == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, missing)]

    def rule(name: str, body: Iterable[Instruction]) -> None:
        number = _NUMBERS[name][column]
        if number is not None:
            steps = list(body)
            program.extend([(_EQUAL, 0, len(steps), number), *steps])

    allowed = (_AF_INET, _AF_INET6, _AF_NETLINK) if network else ()
    rule(
        "socket",
        [
            (_LOAD, 0, 0, _AT_ARGUMENTS),
            *(step for family in allowed for step in ((_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW))),
            # The C library asks a cache of names over the one, and libraries list interfaces over the other.
            *(
                step
                for family in (_AF_UNIX, _AF_NETLINK)
                for step in ((_EQUAL, 0, 1, family), (_RETURN, 0, 0, quietly))
            ),
            (_RETURN, 0, 0, refuse),
        ],
    )
    # A pair of datagram sockets could still send to any name; a connected one cannot.
    rule(
        "socketpair",
        [
            (_LOAD, 0, 0, _AT_ARGUMENTS),
            (_EQUAL, 1, 0, _AF_UNIX),
            (_RETURN, 0, 0, refuse),
            (_LOAD, 0, 0, _AT_ARGUMENTS + 8),
            (_AND, 0, 0, 0xF),
            (_EQUAL, 1, 0, _SOCK_STREAM),
            (_EQUAL, 0, 1, _SOCK_SEQPACKET),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, quietly),
        ],
    )
    for name, flags in (("clone", _NAMESPACE_FLAGS), ("unshare", _NAMESPACE_FLAGS | _NEWTIME)):
        rule(
            name,
            [(_LOAD, 0, 0, _AT_ARGUMENTS), (_ANY_BIT, 0, 1, flags), (_RETURN, 0, 0, refuse), (_RETURN, 0, 0, _ALLOW)],
        )
    # Its flags lie in memory, where no filter looks; told that there is no such call, libraries fall back on clone.
    rule("clone3", [(_RETURN, 0, 0, missing)])
    for names in _ALWAYS.values():
        for name in names:
            rule(name, [(_RETURN, 0, 0, refuse)])
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in program)
