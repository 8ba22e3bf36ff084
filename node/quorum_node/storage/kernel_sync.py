"""fdatasync by the kernel's own worker: begun with one call, and its end is an event of the loop.

A thread that syncs for a loop costs several hand-overs of the interpreter's lock for each sync. Linux can do without it: asynchronous I/O
(`io_submit` with IOCB_CMD_FDSYNC) runs the same sync of the same open file on a worker of the kernel, so errors are
reported as by `fdatasync`, once for each open file. Owns the three system calls and their structures, which Python's
library does not have. Knows nothing of what is synced.

Where there is no such thing (another system, a sandbox that forbids it, `fs.aio-max-nr` reached), `open_kernel_sync`
returns None, and a thread does it.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

_NUMBERS = {"x86_64": (206, 208, 209), "aarch64": (0, 4, 2)}
"""System calls io_setup, io_getevents and io_submit by architecture (asm/unistd.h)."""
_FDSYNC = 3
"""IOCB_CMD_FDSYNC (linux/aio_abi.h)."""
_SIGNAL_EVENTFD = 1
"""IOCB_FLAG_RESFD."""
_CONTROL_BLOCK = struct.Struct("=QIIHhIQQqQII")
"""struct iocb, little-endian: data, key, rw_flags, opcode, priority, file, buffer, size, position, reserved, flags, eventfd."""
_EVENT = struct.Struct("=QQqq")
"""struct io_event: data, control block, result, second result."""


class KernelSync:
    """At most one sync at a time. `eventfd` becomes readable when it has ended."""

    def __init__(self, numbers: tuple[int, int, int]) -> None:
        """Raises OSError where the kernel has no asynchronous I/O for this process."""
        setup, self._getevents, self._submit = map(ctypes.c_long, numbers)
        # The interpreter's lock is kept in calls that can't block, and let go of in the one that waits.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._waiting_call = ctypes.CDLL(None, use_errno=True).syscall
        context = ctypes.c_ulong(0)
        _check(self._call(setup, 1, ctypes.byref(context)))
        self._context = context
        self._one = ctypes.c_long(1)
        self._block = ctypes.create_string_buffer(_CONTROL_BLOCK.size)
        self._blocks = (ctypes.c_void_p * 1)(ctypes.addressof(self._block))
        self._event = ctypes.create_string_buffer(_EVENT.size)
        # A sandbox that allows the first of the calls and not the others must not look like a disk that fails.
        _check(self._call(self._submit, self._context, ctypes.c_long(0), self._blocks))
        none, at_once = ctypes.c_long(0), (ctypes.c_long * 2)(0, 0)
        _check(self._call(self._getevents, self._context, none, self._one, self._event, at_once))
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def submit(self, fd: int) -> None:
        """Begin a sync of this file; it may be closed meanwhile. Raises OSError: nothing was begun."""
        _CONTROL_BLOCK.pack_into(
            self._block, 0, 0, 0, 0, _FDSYNC, 0, fd, 0, 0, 0, 0, _SIGNAL_EVENTFD, self.eventfd
        )
        _check(self._call(self._submit, self._context, self._one, self._blocks))

    def wait(self) -> int:
        """The errno of the sync that was begun, 0 if it made everything durable. Waits for it."""
        while True:
            got = self._waiting_call(
                self._getevents, self._context, self._one, self._one, self._event, None
            )
            if got == 1:
                return -int(_EVENT.unpack(self._event)[2])
            if (code := ctypes.get_errno()) != errno.EINTR:
                raise OSError(code, os.strerror(code))

    def close(self) -> None:
        """Close the eventfd. The kernel takes back the rest with the process: to give it back here may wait for a disk."""
        os.close(self.eventfd)


def open_kernel_sync() -> KernelSync | None:
    """None where there is none."""
    numbers = _NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
    if numbers is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        return KernelSync(numbers)
    except OSError:
        return None


def _check(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
