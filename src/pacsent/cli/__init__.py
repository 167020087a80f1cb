"""The command line: parse, call one library function, print.

Results go to stdout, progress and warnings to stderr. Heavy modules are imported inside the
commands, so that `pacsent --help` answers at once.
"""

import os
import sys
import warnings

import click

from pacsent.cli import bench, certificates, sentences, words
from pacsent.cli.common import cli, one_line_warning

__all__ = ["bench", "certificates", "cli", "main", "sentences", "words"]


def main():
    """Entry point: a user's mistake is one line on stderr, never a traceback.

    PACSENT_DEBUG=1 in the environment shows the traceback all the same.
    """
    warnings.showwarning = one_line_warning
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(130) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output went away (| head)
        sys.stderr.close()
        raise SystemExit(0) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("PACSENT_DEBUG"):
            raise
        message = str(error) or f"{type(error).__name__} (out of memory?)"
        print(f"Error: {message}", file=sys.stderr)
        raise SystemExit(1) from None
    raise SystemExit(status if isinstance(status, int) else 0)
