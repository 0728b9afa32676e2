"""The limits that a sandbox process sets for itself before it runs foreign code."""

import contextlib
import ctypes
import os
import resource
import struct
import sys
from typing import Final

from steward.sandbox.protocol import MIB

_LIMITS: Final = (
    (resource.RLIMIT_AS, 1024 * MIB),
    (resource.RLIMIT_CPU, 30),
    (resource.RLIMIT_NOFILE, 16),
    (resource.RLIMIT_NPROC, 0),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
)

_NO_NEW_PRIVILEGES: Final = 38
_SECCOMP: Final = 22
_FILTER: Final = 2
_NEW_NETWORK: Final = 0x40000000
_NEW_USER: Final = 0x10000000
_DROP_BOUND: Final = 24
_AMBIENT: Final = 47
_CLEAR_AMBIENT: Final = 4
_CAPABILITIES_3: Final = 0x20080522
_KILL_OTHERS: Final = 5
_NOBODY: Final = 65_534
_FIRST_OWN_USER: Final = 1_879_048_192  # above the ids that systems assign; the process id is added

# For reading, writing, memory, clocks, locks, signals and exit: kernel numbers by architecture.
_CALLS: Final = {
    "x86_64": (
        0xC000003E,
        {
            "read": 0, "write": 1, "close": 3, "fstat": 5, "poll": 7, "lseek": 8, "mmap": 9, "mprotect": 10,
            "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
            "mremap": 25, "madvise": 28, "getpid": 39, "exit": 60, "gettimeofday": 96, "getrusage": 98,
            "times": 100,
            "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202, "restart_syscall": 219,
            "clock_gettime": 228, "clock_getres": 229, "exit_group": 231, "getrandom": 318, "membarrier": 324,
            "rseq": 334,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "close": 57, "lseek": 62, "read": 63, "write": 64, "ppoll": 73, "fstat": 80, "exit": 93,
            "exit_group": 94, "futex": 98, "clock_gettime": 113, "clock_getres": 114, "restart_syscall": 128,
            "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153,
            "getrusage": 165, "gettimeofday": 169, "getpid": 172, "gettid": 178, "brk": 214, "munmap": 215,
            "mremap": 216, "mmap": 222, "mprotect": 226, "madvise": 233, "getrandom": 278, "membarrier": 283,
            "rseq": 293,
        },
    ),
}  # fmt: skip

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_X32_BIT: Final = 0x40000000


def set_resource_limits() -> None:
    """Sets the resource limits; keeps limits that are already lower."""
    for kind, value in _LIMITS:
        _, hard = resource.getrlimit(kind)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))


def leave_network_and_root() -> tuple[bool, bool]:
    """Leaves the network, and gives up root's user and group and all capabilities.

    Returns whether the process has an empty network namespace of its own, and whether it is neither root nor
    has any capability.
    """
    if not sys.platform.startswith("linux"):
        return False, os.getuid() != 0
    libc = ctypes.CDLL(None, use_errno=True)
    has_own_network = libc.unshare(_NEW_NETWORK) == 0
    if os.getuid() == 0 and _permitted_capabilities(libc) >> _KILL_OTHERS & 1:
        _drop_root(libc)
    # The user namespace comes last: inside it root could not change its user and would not appear as root.
    is_root = os.getuid() == 0
    has_own_network = has_own_network or libc.unshare(_NEW_USER | _NEW_NETWORK) == 0
    _drop_bounding_set(libc)  # a new namespace grants capabilities
    libc.capset(_capability_header(), struct.pack("6I", 0, 0, 0, 0, 0, 0))
    return has_own_network, not is_root and _permitted_capabilities(libc) == 0


def _drop_root(libc: ctypes.CDLL) -> None:
    """Switches to a user and group that no other process has, so that children cannot reach each other.

    Where the system does not map such ids, as in containers with few users, it switches to nobody. If root
    may not signal other users, it stays root, since the service could not end the child otherwise.
    """
    _drop_bounding_set(libc)
    for user in (_FIRST_OWN_USER + os.getpid(), _NOBODY):
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            return


def _drop_bounding_set(libc: ctypes.CDLL) -> None:
    """Prevents programs started later from regaining capabilities; requires a capability of root."""
    libc.prctl(_AMBIENT, _CLEAR_AMBIENT, 0, 0, 0)
    for capability in range(64):
        if libc.prctl(_DROP_BOUND, capability, 0, 0, 0) != 0:
            return


def _permitted_capabilities(libc: ctypes.CDLL) -> int:
    """Returns the process's permitted capabilities as bits."""
    data = ctypes.create_string_buffer(24)
    if libc.capget(_capability_header(), data) != 0:
        return 0
    _, low, _, _, high, _ = struct.unpack("6I", data.raw)
    return int(low | high << 32)


def _capability_header() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES_3, 0))


def filter_system_calls() -> bool:
    """Installs a filter that kills the process at unlisted system calls. Returns whether it succeeded."""
    machine = os.uname().machine
    if not sys.platform.startswith("linux") or machine not in _CALLS:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    instructions = _filter_program(*_CALLS[machine])
    code = ctypes.create_string_buffer(b"".join(instructions))
    program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(code))
    return int(libc.prctl(_SECCOMP, _FILTER, ctypes.create_string_buffer(program), 0, 0)) == 0


def _filter_program(architecture: int, calls: dict[str, int]) -> list[bytes]:
    """Returns a filter that allows the listed system calls of this architecture and kills at others."""
    numbers = sorted(calls.values())
    instructions = [
        _instruction(_LOAD, 0, 0, 4),
        _instruction(_JUMP_EQUAL, 1, 0, architecture),
        _instruction(_RETURN, 0, 0, _KILL),
        _instruction(_LOAD, 0, 0, 0),
        _instruction(_JUMP_AT_LEAST, 0, 1, _X32_BIT),
        _instruction(_RETURN, 0, 0, _KILL),
    ]
    for index, number in enumerate(numbers):
        instructions.append(_instruction(_JUMP_EQUAL, len(numbers) - index, 0, number))
    return [*instructions, _instruction(_RETURN, 0, 0, _KILL), _instruction(_RETURN, 0, 0, _ALLOW)]


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
