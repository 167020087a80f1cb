"""Find result files that describe an older version of what they measure.

    python scripts/check_results.py

Every file in benchmarks/results records the commit it was measured at. A file is out of date where
the benchmark or a package that it measures changed since then; the exit status is then 1.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLASSIFIER = ("classify", "text", "encoders")
MEASURED = {  # packages of each benchmark; guarantees, paper and search are those that state bounds
    "alternatives": (*CLASSIFIER, "guarantees"),
    "before_after": ("classify", "encoders", "maths", "words", "_kernels"),
    "certify": ("guarantees", "maths"),
    "classify": CLASSIFIER,
    "classify_bounds": ("paper", "guarantees"),
    "encode": ("encoders", "text"),
    "encoders": (*CLASSIFIER,),
    "english": ("encoders", "models"),
    "guarantees": ("guarantees", "maths"),
    "labels": ("classify", "guarantees"),
    "multilingual": ("encoders",),
    "own_language": ("encoders", "words"),
    "reproduce": ("paper", "encoders", "maths"),
    "scale": ("scale", "encoders"),
    "search": ("search",),
    "serve": ("web",),
    "simulate": ("guarantees", "maths"),
    "solve": ("maths", "_kernels"),
    "targets": ("classify", "guarantees"),
    "train": ("words", "_kernels"),
    "train_gpu": ("gpu",),
}


def git(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


def state(path: Path) -> str:
    """Empty if the file is up to date, else what is wrong."""
    content = json.loads(path.read_text(encoding="utf-8"))
    commit = content.get("commit", "") if isinstance(content, dict) else ""
    name = path.relative_to(ROOT / "benchmarks" / "results").parts[0]
    if not commit or git("cat-file", "-e", commit.rstrip("+")).returncode:
        return "records no commit of this repository"
    places = [f"src/pacsent/{package}" for package in MEASURED.get(name, ())]
    if (ROOT / "benchmarks" / f"{name}.py").exists():
        places.append(f"benchmarks/{name}.py")
    changed = git("diff", "--name-only", commit.rstrip("+"), "HEAD", "--", *places).stdout.split()
    return f"{len(changed)} measured files changed since {commit}" if changed else ""


def main() -> None:
    files = sorted((ROOT / "benchmarks" / "results").rglob("*.json"))
    outdated = {path: reason for path in files if (reason := state(path))}
    for path, reason in outdated.items():
        print(f"{path.relative_to(ROOT)}: {reason}")
    print(f"{len(outdated)} of {len(files)} result files are out of date")
    sys.exit(bool(outdated))


if __name__ == "__main__":
    main()
