"""The built wheel and sdist: what is in them, what is not, and that they run elsewhere."""

import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import headscope

ROOT = Path(__file__).resolve().parents[1]


def done(*command, cwd):
    """Standard output of a command that has to succeed."""
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder with the sdist of the tree, and the wheel that was built from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder))
    done(*build, str(ROOT), cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel_names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def metadata(wheel, wheel_names):
    (name,) = [name for name in wheel_names if name.endswith(".dist-info/METADATA")]
    with zipfile.ZipFile(wheel) as archive:
        return message_from_string(archive.read(name).decode())


def test_both_are_named_after_the_version(built):
    version = headscope.__version__
    assert {path.name for path in built.iterdir()} == {
        f"headscope-{version}-py3-none-any.whl",
        f"headscope-{version}.tar.gz",
    }


def test_wheel_holds_every_file_of_the_package(wheel_names):
    listed = done("git", "ls-files", "headscope", cwd=ROOT).split("\n")
    tracked = {name for name in listed if name and (ROOT / name).is_file()}
    assert tracked - set(wheel_names) == set()
    assert {"headscope/py.typed", "headscope/schemas/surface.json"} <= tracked


def test_wheel_holds_the_sample_with_licences_and_attribution(wheel_names):
    sample = [name for name in wheel_names if name.startswith("headscope/datasets/sample/")]
    assert any(name.endswith((".conllu", ".conllu.gz")) for name in sample)
    assert any(Path(name).name.startswith("LICENSE") for name in sample)
    assert "headscope/datasets/sample/README.md" in sample


def test_wheel_holds_nothing_but_the_package(wheel_names):
    assert {name.split("/")[0] for name in wheel_names} == {
        "headscope",
        f"headscope-{headscope.__version__}.dist-info",
    }
    assert not [name for name in wheel_names if re.search(r"__pycache__|/tests?[/_]", name)]


def test_sdist_holds_the_package_and_its_papers_only(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    papers = {"README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "CITATION.cff", "constraints.txt"}
    assert papers <= tops
    assert tops <= papers | {"headscope", "pyproject.toml", "PKG-INFO", ".gitignore"}


def test_metadata_tells_licences_and_extras(metadata):
    assert metadata["License-Expression"] == "Apache-2.0 AND CC-BY-4.0 AND CC-BY-2.5"
    files = metadata.get_all("License-File")
    assert {"LICENSE", "NOTICE"} <= set(files)
    assert any(name.startswith("headscope/datasets/sample/LICENSE") for name in files)
    assert {"demo", "text", "images", "dev"} <= set(metadata.get_all("Provides-Extra"))
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_every_requirement_is_pinned(metadata):
    def name_of(line):
        return re.match(r"[\w.-]+", line).group().lower().replace("_", "-").replace(".", "-")

    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    assert lines == sorted(lines, key=name_of)
    required = {name_of(line) for line in metadata.get_all("Requires-Dist")}
    assert required - {name_of(line) for line in lines} == set()


@pytest.fixture(scope="module")
def elsewhere(wheel, tmp_path_factory):
    """Python of a fresh environment that has the wheel, and what it requires from this one."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", str(python))
    done(*pip, "install", "--no-deps", "--no-index", str(wheel), cwd=folder)
    (site,) = (folder / "lib").glob("python*/site-packages")
    # A path, not a site folder: the .pth of this environment's editable headscope is not read.
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def test_installed_wheel_is_what_is_imported(elsewhere, tmp_path):
    code = "import headscope; print(headscope.__file__)"
    assert Path(done(str(elsewhere), "-c", code, cwd=tmp_path).strip()).is_relative_to(
        elsewhere.parents[1]
    )


def test_installed_wheel_finds_its_data(elsewhere, tmp_path):
    code = (
        "import headscope\n"
        "from headscope.results import schema\n"
        "assert schema('dependency')['title'] == 'dependency'\n"
        "print(len(next(iter(headscope.open_corpus('demo').read())).words))"
    )
    assert int(done(str(elsewhere), "-c", code, cwd=tmp_path)) > 0


@pytest.mark.parametrize("start", ["module", "script"])
def test_installed_wheel_runs(start, elsewhere, tmp_path):
    script = (str(elsewhere.with_name("headscope")),)
    command = (str(elsewhere), "-m", "headscope") if start == "module" else script
    assert headscope.__version__ in done(*command, "--version", cwd=tmp_path)
