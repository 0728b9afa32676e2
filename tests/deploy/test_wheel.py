"""Tests the wheel: reproducible, complete, and started from an empty environment without Node."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import httpx
import pytest

from release_build import bundled_packages
from steward.built import differences
from tests.processes.ports import free_port
from tests.processes.running import eventually, start
from tests.source import ROOT

COMMIT_TIME = "1790000000"
# What the source distribution is made from, beside the package.
SOURCES = (
    *("CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml", "wheel_build.py"),
    ".gitignore",
    *("requirements.txt", "requirements-build.txt", "requirements-files.txt"),
    *("requirements-holidays.txt", "requirements-traces.txt", "deploy"),
)
WHEEL = "steward_automations-0.1.0-py3-none-any.whl"
# Matches the package of each import of a value from node_modules.
IMPORT = re.compile(r'^\s*import (?!type)[^;]*?from "((?:@[^/"]+/)?[^./"][^/"]*)', re.MULTILINE)
MAX_WHEEL_BYTES = 2_799_999  # docs/decisions/0273-the-wheel-weighs-up-to-28-mb.md
MAX_INSTALLED_BYTES = 150_000_000
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


def build(folder: Path, output: Path, *targets: str) -> None:
    """Builds in `folder` as `make wheel` does."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(output), *targets],
        cwd=folder,
        env={"SOURCE_DATE_EPOCH": COMMIT_TIME, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provides a folder with the wheel and the source distribution, built from a copy of the checkout."""
    if not (ROOT / "steward/static/index.html").is_file():
        pytest.skip("SKIPPED LOUDLY: the web app is not built; run make built")
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    no_caches = shutil.ignore_patterns("__pycache__", "built.sha256")
    shutil.copytree(ROOT / "steward", source / "steward", ignore=no_caches)
    subprocess.run([sys.executable, "steward/built.py"], cwd=source, check=True)
    build(source, source / "dist")
    return source / "dist"


def test_two_builds_in_two_folders_are_equal_bytes(dist: Path, tmp_path: Path) -> None:
    """Builds the same bytes from the source distribution in another folder, and refuses altered files."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = next(tmp_path.iterdir())
    build(unpacked, tmp_path / "dist", "-t", "wheel")
    assert (tmp_path / "dist" / WHEEL).read_bytes() == (dist / WHEEL).read_bytes()
    assert (dist / WHEEL).stat().st_size <= MAX_WHEEL_BYTES
    (unpacked / "steward/static/index.html").write_text("changed")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        build(unpacked, tmp_path / "again", "-t", "wheel")
    assert b"static/index.html" in refused.value.stderr + refused.value.stdout


def test_licences_of_bundled_javascript_are_in_the_wheel(dist: Path) -> None:
    """Contains the licence of each package that the sources import, in the version of the lock file."""
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        licenses = {Path(name).name for name in wheel.namelist() if ".dist-info/licenses/" in name}
        described = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
        assert "steward/py.typed" in wheel.namelist()
    packages = bundled_packages()
    assert licenses == {"LICENSE", *packages}
    names = {name for name, _, _ in packages.values()}
    imported = {
        package
        for path in (ROOT / "web/src").rglob("*")
        if path.suffix in (".ts", ".svelte") and not path.name.endswith(".test.ts")
        for package in IMPORT.findall(path.read_text("utf-8"))
    }
    scripts = json.loads((ROOT / "steward/sandbox/package.json").read_text("utf-8"))["dependencies"]
    assert {"svelte", "@xyflow/svelte"} <= imported
    assert imported | scripts.keys() <= names
    assert "Name: steward-automations" in described
    assert "Provides-Extra: files" in described


def test_an_installation_is_small(dist: Path) -> None:
    """Is under 150 MB together with the installed packages of requirements.txt."""
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        installed_bytes = sum(entry.file_size for entry in wheel.infolist())
    for name in PINNED.findall((ROOT / "requirements.txt").read_text("utf-8")):
        files = [Path(str(file.locate())) for file in metadata.files(name) or ()]
        assert files, name
        installed_bytes += sum(file.stat().st_size for file in files if file.is_file())
    assert installed_bytes <= MAX_INSTALLED_BYTES


def install(wheel: Path, environment: Path) -> Path:
    """Makes an environment with the wheel and returns the folder of its packages.

    Dependencies are read from this environment, since only the wheel is tested.
    """
    venv.create(environment, symlinks=True)
    command = (sys.executable, "-m", "pip", "--python", str(environment / "bin/python"), "install", "--quiet")
    options = ("--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check")
    subprocess.run([*command, *options, str(wheel)], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return packages


async def test_an_installed_wheel_runs_the_demo_without_node(dist: Path, tmp_path: Path) -> None:
    """Serves the demo's sign-in page and its script from an environment that alone is on the PATH."""
    environment = tmp_path / "env"
    packages = install(dist / WHEEL, environment)
    assert not differences(packages / "steward")
    assert shutil.which("node", path=environment / "bin") is None
    demo = await start(
        *("demo", "--port", str(free_port(2))),
        env={"PATH": str(environment / "bin")},
        program=(str(environment / "bin/steward-automations"),),
        folder=tmp_path,
    )
    try:
        async with httpx.AsyncClient(base_url=demo.facts["base_url"], timeout=30) as client:

            async def ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            assert await eventually(ready)
            page = await client.get("/sign-in")
            assert page.status_code == 200
            script = re.search(r'<script[^>]* src="([^"]+)"', page.text)
            assert script is not None
            assert (await client.get(script[1])).status_code == 200
    finally:
        assert await demo.stop() == 0
