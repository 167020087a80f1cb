"""Install the wheel for this machine into an empty environment and use it there.

    python scripts/try_wheel.py [FOLDER] [--tests [PATH ...]]

FOLDER (dist) contains the wheels of all platforms; pip selects one by its name. `--tests` runs the
fast tests of the packages, or those of some paths, against the installed package as well: what the
release workflow does on each platform. Tests of the checkout (tests/test_*.py: pages, layers, ...)
are not among them.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAST = "not slow and not extra and not benchmark and not gpu"

# Run by the environment's Python, outside the checkout.
USE = """
import sys
from importlib.metadata import distribution, version
from pathlib import Path

import pacsent
from pacsent import certify_predictions, load
from pacsent.kernels import library

root = Path(sys.prefix).resolve()
assert root in Path(pacsent.__file__).resolve().parents, pacsent.__file__
assert library.is_available(), "the compiled library was not loaded"
assert version("pacsent") == pacsent.__version__

vectors = load("english").encode(["a sleeping kitten", "a glass of wine"])
assert vectors.shape == (2, 256) and abs(vectors).sum() > 0, vectors

labels = ["spam", "ham"] * 100
predictions = ["ham"] * 4 + labels[4:]
certificate = certify_predictions(labels, predictions)
print(certificate.summary())
assert certificate.verify()

sizes = [file.locate().stat().st_size for file in distribution("pacsent").files]
python = sys.version.split()[0]
print(f"installed: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB, in Python {python}")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--tests", nargs="*", metavar="PATH")
    options = parser.parse_args()
    environment = {**os.environ}
    environment.pop("PYTHONPATH", None)  # it would import another copy

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        binaries = place / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        python = str(binaries / "python")
        environment["PATH"] = os.pathsep.join([str(binaries), environment.get("PATH", "")])

        def run(*command: str, cwd: Path = place, **more) -> None:
            subprocess.run(command, check=True, env=environment, cwd=cwd, **more)

        # The wheel first and from FOLDER alone, then what it needs.
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        wheels = ("--no-index", "--only-binary", ":all:", "--find-links")
        run(*pip, "--no-deps", *wheels, str(options.folder.resolve()), "pacsent")
        run(*pip, "pacsent" if options.tests is None else "pacsent[dev]")

        run(python, "-c", USE)
        embed = (str(binaries / "pacsent"), "embed", "english", "--quiet")
        run(*embed, input=b"a sleeping kitten", stdout=subprocess.DEVNULL)
        if options.tests is not None:
            pytest = (python, "-m", "pytest", "-m", FAST, "-n", "2", "--dist", "loadfile")
            tested = sorted({str(test.parent) for test in ROOT.glob("tests/*/test_*.py")})
            run(*pytest, *(options.tests or tested), cwd=ROOT)


if __name__ == "__main__":
    main()
