"""Check the files of a release: content against git, platform of the compiled library, size.

    python scripts/check_dist.py [FOLDER]

The source archive must contain the files of the last commit, byte for byte, and a wheel those of
`src/pacsent` and `share`, with one compiled library, which must be for the wheel's platform.
"""

import hashlib
import re
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import hatch_build  # noqa: E402

MAX_WHEEL_BYTES = 30_000_000
MAX_GLIBC = 17  # manylinux_2_17

# The fields of the file headers that name the processor.
ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
PE_MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64"}
MACHO_MACHINES = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
MACHO_CODE_SIGNATURE = 0x1D

LIBRARY = re.compile(r"pacsent/kernels/_kernels-([0-9a-f]+)\.(so|dylib|dll)")
NOT_PACKED = (".c", ".h")  # of src/pacsent: sources of the library


def blob_hash(content: bytes) -> str:
    """The name that git gives to a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def committed_files(root: Path = ROOT) -> dict[str, str]:
    """The path and the hash of every file of the last commit."""
    command = ["git", "-C", str(root), "ls-tree", "-r", "-z", "HEAD"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    entries = [entry.split("\t", 1) for entry in listing.split("\0") if entry]
    return {path: fields.split()[2] for fields, path in entries}


def expected_in_wheel(committed: dict[str, str], stem: str) -> dict[str, str]:
    """The path in a wheel and the hash of each committed file that belongs into it."""
    places = {}
    for path, blob in committed.items():
        if path.startswith("src/pacsent/") and not path.endswith(NOT_PACKED):
            places[path.removeprefix("src/")] = blob
        elif path.startswith("share/"):
            places[f"{stem}.data/data/{path}"] = blob
        elif path in ("LICENSE", "LICENSE-DATA.md"):
            places[f"{stem}.dist-info/licenses/{path}"] = blob
    return places


def library_platform(content: bytes) -> str:
    """The platform of a shared library, as `hatch_build.PLATFORMS` names it, by its header."""
    if content[:4] == b"\x7fELF":
        return f"{ELF_MACHINES.get(*struct.unpack_from('<H', content, 18))}-linux"
    if content[:2] == b"MZ":
        (header,) = struct.unpack_from("<I", content, 0x3C)
        return f"{PE_MACHINES.get(*struct.unpack_from('<H', content, header + 4))}-windows"
    if content[:4] == b"\xcf\xfa\xed\xfe":
        return f"{MACHO_MACHINES.get(*struct.unpack_from('<I', content, 4))}-macos"
    return "unknown"


def is_signed(content: bytes) -> bool:
    """True if a Mach-O library has a code signature: macOS on ARM64 loads no other."""
    (n_commands,) = struct.unpack_from("<I", content, 16)
    position = 32
    for _ in range(n_commands):
        command, size = struct.unpack_from("<II", content, position)
        if command == MACHO_CODE_SIGNATURE:
            return True
        position += size
    return False


def library_problems(content: bytes, target: str) -> list[str]:
    """What keeps a library from being loaded on a target of `hatch_build.PLATFORMS`."""
    platform = library_platform(content)
    if platform != target:
        return [f"the library is for {platform}, the wheel for {target}"]
    if platform.endswith("linux"):
        newest = max([int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", content)], default=0)
        if newest > MAX_GLIBC:
            return [f"the library needs glibc 2.{newest}, the wheel's name says 2.{MAX_GLIBC}"]
    if platform == "aarch64-macos" and not is_signed(content):
        return ["the library is not signed; macOS on ARM64 would not load it"]
    return []


def difference(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    """The files that are missing, extra or of another content."""
    changed = [path for path in found.keys() & expected.keys() if found[path] != expected[path]]
    return [
        *(f"missing: {path}" for path in sorted(expected.keys() - found.keys())),
        *(f"not in git: {path}" for path in sorted(found.keys() - expected.keys())),
        *(f"differs from the last commit: {path}" for path in sorted(changed)),
    ]


def archive_problems(path: Path, committed: dict[str, str]) -> list[str]:
    """The problems of a source archive."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile():
                inside = str(PurePosixPath(*PurePosixPath(member.name).parts[1:]))
                found[inside] = blob_hash(archive.extractfile(member).read())
    found.pop("PKG-INFO", None)  # made from pyproject.toml
    return difference(found, committed)


def wheel_problems(path: Path, committed: dict[str, str]) -> list[str]:
    """The problems of a wheel."""
    name, version, *_, platform = path.stem.split("-")
    stem = f"{name}-{version}"
    with zipfile.ZipFile(path) as archive:
        contents = {inside: archive.read(inside) for inside in archive.namelist()}
    libraries = {inside: content for inside, content in contents.items() if LIBRARY.match(inside)}
    made = {f"{stem}.dist-info/{inside}" for inside in ("METADATA", "WHEEL", "RECORD")}
    made.add(f"{stem}.dist-info/entry_points.txt")

    found = {
        inside: blob_hash(content)
        for inside, content in contents.items()
        if inside not in libraries and inside not in made
    }
    problems = difference(found, expected_in_wheel(committed, stem))
    problems += [f"missing: {inside}" for inside in sorted(made - contents.keys())]

    size = path.stat().st_size
    if size > MAX_WHEEL_BYTES:
        problems.append(f"{size:,} bytes, more than {MAX_WHEEL_BYTES:,}")

    targets = [target for target, (_, tag) in hatch_build.PLATFORMS.items() if tag == platform]
    if not targets:
        problems.append(f"no target of hatch_build.py has the platform {platform}")
    elif len(libraries) != 1:
        problems.append(f"{len(libraries)} compiled libraries, one expected: {sorted(libraries)}")
    else:
        ((inside, content),) = libraries.items()
        if LIBRARY.match(inside)[1] != hatch_build.digest():
            problems.append(f"{inside} was compiled from other sources")
        problems += library_problems(content, targets[0])
    return problems


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    committed = committed_files()
    n_problems = 0
    for path in sorted(folder.iterdir()):
        is_wheel = path.suffix == ".whl"
        problems = (wheel_problems if is_wheel else archive_problems)(path, committed)
        n_problems += len(problems)
        size = path.stat().st_size / 1e6
        print(
            f"{path.name}: {size:.1f} MB, {'as committed' if not problems else 'NOT as expected'}"
        )
        for problem in problems:
            print(f"  {problem}")
    if n_problems:
        sys.exit(
            f"{n_problems} problems. Commit or remove what differs, and run `make dist` again."
        )


if __name__ == "__main__":
    main()
