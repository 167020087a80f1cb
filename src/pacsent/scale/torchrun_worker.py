"""One worker of many machines, for torchrun.

torchrun --nnodes 4 --nproc-per-node 8 --max-restarts 3 --rdzv-backend c10d \\
    --rdzv-endpoint HOST:29500 -m pacsent.scale.torchrun_worker CORPUS FOLDER --n-dims 300

CORPUS is a folder made by `pacsent.Corpus.build`, the same on every machine. FOLDER is visible to
all machines: it holds the checkpoints, and the word vectors in FOLDER/words. A worker that is lost
is replaced by torchrun, and all continue from the last checkpoint.
"""

import argparse
from pathlib import Path

from pacsent.scale.distributed_training import Schedule, run_worker
from pacsent.scale.groups import Distributed

_INTEGERS = ("n-dims", "window", "n-epochs", "n-negatives")
_NUMBERS = ("subsample", "learning-rate", "noise-power")


def main(arguments: list[str] | None = None) -> None:
    """Parse, join the group, train."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus")
    parser.add_argument("folder", type=Path)
    for name in _INTEGERS:
        parser.add_argument(f"--{name}", type=int, default=argparse.SUPPRESS)
    for name in _NUMBERS:
        parser.add_argument(f"--{name}", type=float, default=argparse.SUPPRESS)
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--n-threads", type=int, default=1)
    parser.add_argument("--every", type=int, default=Schedule.every)
    parser.add_argument("--warm-up", type=int, default=Schedule.warm_up)
    given = vars(parser.parse_args(arguments))
    schedule = Schedule(given.pop("every"), given.pop("warm_up"))
    group = Distributed()
    try:
        run_worker(given.pop("corpus"), group, given.pop("folder"), schedule=schedule, **given)
    finally:
        group.close()


if __name__ == "__main__":
    main()
