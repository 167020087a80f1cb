"""Build the source archive and, from its unpacked files, one wheel per platform.

    python scripts/build_dist.py [--targets x86_64-linux,aarch64-macos] [FOLDER]

It runs in an environment with build, hatchling and ziglang, which `make dist` creates. zig compiles
the kernels for every platform, this one included, so that the wheels of Linux need glibc 2.17 only.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Names of `hatch_build.PLATFORMS`: a release has one wheel for each.
TARGETS = ("x86_64-linux", "aarch64-linux", "aarch64-macos", "x86_64-macos", "x86_64-windows")


def build(kind: str, source: Path, folder: Path, **variables: str) -> None:
    """Build the wheel or the source archive of a project folder with this environment's tools."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "-o", str(folder)]
    subprocess.run([*command, str(source)], env={**os.environ, **variables}, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    options = parser.parse_args()

    shutil.rmtree(options.folder, ignore_errors=True)
    build("sdist", ROOT, options.folder)
    (archive,) = options.folder.glob("*.tar.gz")

    # Wheels are built from what the archive contains, not from this folder: a file that the archive
    # lacks is missed here, and the library that this checkout uses stays in place.
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(archive) as files:
            files.extractall(unpacked, filter="data")
        (source,) = Path(unpacked).iterdir()
        for target in options.targets.split(","):
            build("wheel", source, options.folder, PACSENT_TARGET=target)


if __name__ == "__main__":
    main()
