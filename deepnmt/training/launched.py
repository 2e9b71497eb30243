"""Training processes end together with the launcher that started them, however it ends.

torchrun starts them in sessions of their own, which no signal to the launcher's process group reaches. If the launcher
is killed, or ends before it has told them all, they would go on training. They would write to a folder without a lock.
"""

import ctypes
import os
import signal
import sys

LAUNCHER = "DEEPNMT_LAUNCHER"  # an environment variable
_led = False
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def lead() -> None:
    """Make the processes started by this one follow it."""
    os.environ[LAUNCHER] = str(os.getpid())


def follow() -> None:
    """Have Linux kill this process when its launcher ends; without a launcher or on other systems, do nothing."""
    global _led
    # Processes started by this one have another parent.
    launcher = os.environ.pop(LAUNCHER, "")
    _led = bool(launcher)
    if not launcher or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(launcher):
        # It has ended before.
        os.kill(os.getpid(), signal.SIGKILL)


def is_led() -> bool:
    """Return whether a launcher has started this process; it has checked the options before."""
    return _led
