"""What a release consists of: checked files, changelog, example script, container, workflow."""

import io
import re
import struct
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import pacsent

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = ROOT / ".github" / "workflows"

ELF_X86 = b"\x7fELF" + bytes(14) + struct.pack("<H", 62) + b"GLIBC_2.17"
ELF_ARM = b"\x7fELF" + bytes(14) + struct.pack("<H", 183)
PE_X86 = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<H", 0x8664)


def mach_o(cpu_type, *commands):
    """The beginning of a library of macOS: header and load commands, eight bytes each."""
    header = struct.pack("<8I", 0xFEEDFACF, cpu_type, 0, 6, len(commands), 0, 0, 0)
    return header + b"".join(struct.pack("<II", command, 8) for command in commands)


@pytest.fixture
def dist(monkeypatch):
    """The module `scripts/check_dist.py`."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT))
    import check_dist

    return check_dist


@pytest.fixture
def committed(dist):
    """Path and hash of the files of a small package."""
    contents = {
        "LICENSE": b"MIT",
        "src/pacsent/__init__.py": b"",
        "src/pacsent/kernels/edits.c": b"int x;",
        "share/pacsent.fish": b"complete",
        "tests/test_it.py": b"",
    }
    return {path: dist.blob_hash(content) for path, content in contents.items()}


@pytest.fixture
def write_wheel(dist, tmp_path):
    """A function that writes a wheel of the small package; a file changed to None is absent."""

    def write(changed, platform="win_amd64"):
        library = f"pacsent/kernels/_kernels-{dist.hatch_build.digest()}.dll"
        info = "pacsent-1.0.dist-info"
        contents = {
            "pacsent/__init__.py": b"",
            library: PE_X86,
            "pacsent-1.0.data/data/share/pacsent.fish": b"complete",
            f"{info}/licenses/LICENSE": b"MIT",
            **{f"{info}/{name}": b"" for name in ("METADATA", "WHEEL", "RECORD")},
            f"{info}/entry_points.txt": b"",
            **changed,
        }
        path = tmp_path / f"pacsent-1.0-py3-none-{platform}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in contents.items():
                if content is not None:
                    archive.writestr(name, content)
        return path

    return write


def test_a_wheel_of_the_committed_files_is_accepted(dist, committed, write_wheel):
    assert dist.wheel_problems(write_wheel({}), committed) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"pacsent/__init__.py": None}, "missing: pacsent/__init__.py"),
        ({"pacsent/notes.txt": b"x"}, "not in git: pacsent/notes.txt"),
        ({"pacsent/__init__.py": b"x"}, "differs from the last commit: pacsent/__init__.py"),
        ({"pacsent/kernels/edits.c": b"int x;"}, "not in git: pacsent/kernels/edits.c"),
        ({"pacsent-1.0.dist-info/METADATA": None}, "missing: pacsent-1.0.dist-info/METADATA"),
        ({"pacsent/kernels/_kernels-0.so": ELF_X86}, "2 compiled libraries, one expected"),
    ],
)
def test_a_file_of_a_wheel_that_differs_from_git_is_named(
    dist, committed, write_wheel, changed, problem
):
    (found,) = dist.wheel_problems(write_wheel(changed), committed)

    assert found.startswith(problem)


def test_a_wheel_with_the_library_of_another_platform_is_rejected(dist, committed, write_wheel):
    wheel = write_wheel({}, platform="win_arm64")

    problems = dist.wheel_problems(wheel, committed)

    assert problems == ["the library is for x86_64-windows, the wheel for aarch64-windows"]


def test_a_library_of_other_sources_is_rejected(dist, committed, write_wheel, monkeypatch):
    wheel = write_wheel({})
    monkeypatch.setattr(dist.hatch_build, "digest", lambda: "0" * 12)

    (problem,) = dist.wheel_problems(wheel, committed)

    assert problem.endswith(".dll was compiled from other sources")


def test_a_large_wheel_is_rejected(dist, committed, write_wheel, monkeypatch):
    monkeypatch.setattr(dist, "MAX_WHEEL_BYTES", 100)

    (problem,) = dist.wheel_problems(write_wheel({}), committed)

    assert problem.endswith(" bytes, more than 100")


@pytest.mark.parametrize(
    ("content", "platform"),
    [
        (ELF_X86, "x86_64-linux"),
        (ELF_ARM, "aarch64-linux"),
        (PE_X86, "x86_64-windows"),
        (mach_o(0x01000007), "x86_64-macos"),
        (mach_o(0x0100000C), "aarch64-macos"),
        (b"#!/bin/sh", "unknown"),
    ],
)
def test_the_platform_of_a_library_is_read_from_its_header(dist, content, platform):
    assert dist.library_platform(content) == platform


def test_a_library_that_needs_a_newer_glibc_than_its_name_says_is_rejected(dist):
    newer = ELF_X86 + b"\0GLIBC_2.34\0"

    assert dist.library_problems(ELF_X86, "x86_64-linux") == []
    (problem,) = dist.library_problems(newer, "x86_64-linux")

    assert problem == "the library needs glibc 2.34, the wheel's name says 2.17"


def test_an_unsigned_library_for_macos_on_arm_is_rejected(dist):
    signed = mach_o(0x0100000C, 0x19, dist.MACHO_CODE_SIGNATURE)
    unsigned = mach_o(0x0100000C, 0x19)

    assert dist.library_problems(signed, "aarch64-macos") == []
    (problem,) = dist.library_problems(unsigned, "aarch64-macos")

    assert problem.startswith("the library is not signed")


def test_a_source_archive_with_a_compiled_library_is_rejected(dist, tmp_path):
    path = tmp_path / "pacsent-1.0.tar.gz"
    contents = {"LICENSE": b"MIT", "PKG-INFO": b"", "src/pacsent/kernels/_kernels-0.so": ELF_X86}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"pacsent-1.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

    problems = dist.archive_problems(path, {"LICENSE": dist.blob_hash(b"MIT")})

    assert problems == ["not in git: src/pacsent/kernels/_kernels-0.so"]


def test_a_committed_file_has_the_hash_that_git_gives_it(dist):
    assert dist.committed_files()["LICENSE"] == dist.blob_hash((ROOT / "LICENSE").read_bytes())


def test_the_changelog_has_a_section_for_this_version_that_towncrier_continues():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    kinds = [kind["name"] for kind in PYPROJECT["tool"]["towncrier"]["type"]]

    assert changelog.startswith(PYPROJECT["tool"]["towncrier"]["start_string"])
    sections = re.findall(r"^## (\S+)(?: \(\d{4}-\d\d-\d\d\))?$", changelog, re.MULTILINE)
    assert sections[0] == pacsent.__version__
    assert set(re.findall(r"^### (.+)$", changelog, re.MULTILINE)) <= set(kinds)


def test_the_package_links_to_the_paper():
    assert PYPROJECT["project"]["urls"]["Paper"].endswith("1902.04247")


def script_metadata(source):
    """The metadata of a script's header, read as PEP 723 defines it."""
    pattern = r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$"
    (block,) = [match for match in re.finditer(pattern, source) if match["type"] == "script"]
    lines = block["content"].splitlines()
    return tomllib.loads("\n".join(line.removeprefix("# ").removeprefix("#") for line in lines))


def test_the_example_for_uv_run_needs_pacsent_and_its_python():
    source = (ROOT / "examples" / "05_certify_predictions.py").read_text(encoding="utf-8")

    metadata = script_metadata(source)

    assert metadata["dependencies"] == ["pacsent"]
    assert metadata["requires-python"] == PYPROJECT["project"]["requires-python"]
    folder = ROOT / "examples" / metadata["tool"]["uv"]["sources"]["pacsent"]["path"]
    assert (folder / "pyproject.toml").exists()


def test_the_container_installs_the_wheel_and_sees_nothing_else():
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()

    assert ignored == ["*", "!dist/*.whl"]
    assert "type=bind,source=dist,target=/dist" in dockerfile
    assert "--no-index --no-deps --only-binary :all: --find-links /dist pacsent" in dockerfile


@pytest.fixture
def release():
    """The jobs of the release workflow."""
    return yaml.safe_load((WORKFLOWS / "release.yml").read_text(encoding="utf-8"))["jobs"]


def test_the_release_is_what_make_dist_builds(release):
    commands = [step.get("run") for step in release["build"]["steps"]]

    assert "make dist" in commands


def test_every_wheel_is_tested_on_its_platform_before_it_is_published(release, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.syspath_prepend(str(ROOT))
    from build_dist import TARGETS
    from hatch_build import PLATFORMS

    tested = {row["wheel"] for row in release["test"]["strategy"]["matrix"]["include"]}
    built = {PLATFORMS[target][1].rpartition(".")[2] for target in TARGETS}
    assert tested == built

    steps = release["test"]["steps"]
    (run,) = [number for number, step in enumerate(steps) if "try_wheel" in step.get("run", "")]
    (upload,) = [number for number, step in enumerate(steps) if "upload" in step.get("uses", "")]
    assert "--tests" in steps[run]["run"]
    assert run < upload

    assert release["publish"]["needs"] == "test"
    download = release["publish"]["steps"][0]["with"]
    assert download["pattern"] == "tested-*"
