"""The job that the app is for the shell: itself and what was started with it, a script around it for example.

References:
    POSIX, General Terminal Interface, "Orphaned process group".
"""

import os
import signal


def has_shell() -> bool:
    """Tell if there is a shell that can continue the job: nobody would, in a terminal of the app's own."""
    # Only here: the first frame does not wait for it.
    import psutil

    group, session = os.getpgrp(), os.getsid(0)
    for parent in psutil.Process().parents():
        try:
            if os.getpgid(parent.pid) != group:
                return os.getsid(parent.pid) == session
        except OSError:
            return False
    return False


def stop() -> None:
    """Stop the whole job, as the terminal does on Ctrl-Z. The main thread only.

    The shell waits for the first of the job, which may be a script that waits for the app.
    """
    handler = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    os.kill(0, signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)
    os.kill(os.getpid(), signal.SIGSTOP)
