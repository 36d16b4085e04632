"""The command line: the only package that prints, parses or exits.

====  ============================================================================================
code  meaning
====  ============================================================================================
0     done
1     failed: the disk, a missing package, your own code, a broken run, a bug of ours
2     bad usage: nothing was started
130   stopped by Ctrl-C (SIGINT); a training run has written a checkpoint
143   stopped by SIGTERM; a training run has written a checkpoint
====  ============================================================================================

A traceback is shown for two things only: an error in your own environment or bonus, and a bug of ours. ``--debug``
shows it always. This module imports nothing heavy, so that Ctrl-C is answered from the first moment.
"""

import sys

from optimist.cli.signals import ignore_signals, leave_at_once_on_signals, leave_closed

__all__ = ["main"]

STOPPED = 128
"""Codes above it are of signals."""


def main() -> None:
    """Runs the command of ``sys.argv`` and exits with one of the codes above."""
    leave_at_once_on_signals()
    from optimist.cli.commands import execute  # slow: rich, tyro

    code = execute(sys.argv[1:])
    ignore_signals()
    if code > STOPPED or is_rank():
        leave_closed(code)
    sys.exit(code)


def is_rank() -> bool:
    """Whether this process is one of several of a training run; nothing is imported to know it."""
    ranks = sys.modules.get("optimist.ranks")
    return ranks is not None and ranks.is_launched()
