"""The command line: parse, call one library function, print.

Results go to stdout, all else to stderr. Files of commands are imported when they are named. Exit
status: 0, 1 error in the data, 2 in the command line, 3 drift, 130 Ctrl-C, 143 SIGTERM.
"""

import os
import signal
import sys
from types import FrameType

import click

from pacsent.cli.command_line import Terminated, cli
from pacsent.files import open_closed_streams

__all__: list[str] = []  # entered by the command `pacsent`


def main() -> None:
    """Entry point: a user's mistake is one line on stderr, never a traceback."""
    open_closed_streams()

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        # Abort is click's name for Ctrl-C. The statuses are those that shells have.
        is_terminated = isinstance(error.__cause__ or error, Terminated)
        print("Terminated." if is_terminated else "Interrupted.", file=sys.stderr)
        number = signal.SIGTERM if is_terminated else signal.SIGINT
        raise SystemExit(128 + number) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    except OSError as error:  # the output could not be written to the end
        is_pipe = isinstance(error, BrokenPipeError)  # its reader went away (| head)
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, sys.stdout.fileno())  # drops what is buffered
        if not is_pipe:
            print(f"Error: {error}", file=sys.stderr)
        raise SystemExit(0 if is_pipe else 1) from None
    raise SystemExit(status if isinstance(status, int) else 0)
