"""The command line: parse, call one library function, print.

Results go to stdout, progress and warnings to stderr. Heavy modules are imported inside the
commands, so that `pacsent --help` answers at once.
"""

import sys

import click

import pacsent


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(pacsent.__version__, prog_name="pacsent")
def cli():
    """Sentence vectors with a promise attached."""


# ------------------------------------------------------------------------------------------------
# text: clean
# ------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------
# words: train, words
# ------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------
# files: convert
# ------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------
# sentences: fit, embed
# ------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------
# promises: bound, certify, simulate
# ------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------
# scores: evaluate, reproduce, demo
# ------------------------------------------------------------------------------------------------


def main():
    """Entry point: a user's mistake is one line on stderr, never a traceback."""
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
        message = str(error) or f"{type(error).__name__} (out of memory?)"
        print(f"Error: {message}", file=sys.stderr)
        raise SystemExit(1) from None
    raise SystemExit(status if isinstance(status, int) else 0)
