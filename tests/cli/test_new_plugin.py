"""``manifoldseq new-plugin``: its tests pass as generated, and so does ``manifoldseq check``."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from strangers.distributions import command, write

import manifoldseq as ms

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(ms.__file__).parents[1]


def test_files_and_names(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run("new-plugin", "my-model")
    assert (status, err) == (0, "") and "Next: cd my-model && pip install" in out
    files = sorted(str(path.relative_to(tmp_path / "my-model")) for path in tmp_path.rglob("*") if path.is_file())
    assert files == [
        "README.md", "my_model/__init__.py", "my_model/_plugin.py", "my_model/estimator.py", "my_model/model.py",
        "pyproject.toml", "tests/test_my_model.py",
    ]  # fmt: skip
    project = tomllib.loads((tmp_path / "my-model" / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["manifoldseq"] == {"my-model": "my_model._plugin"}
    for file in files:
        text = (tmp_path / "my-model" / file).read_text()
        assert "{{" not in text and text.endswith("\n") and max(map(len, text.splitlines())) <= 120


@pytest.mark.slow
def test_generated_tests_pass(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert run("new-plugin", "my-model", "-o", folder)[0] == 0
    path = os.pathsep.join([str(folder), str(ROOT), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


@pytest.mark.slow
def test_installed_it_is_found_checked_and_used(run: Run, tmp_path: Path) -> None:
    assert run("new-plugin", "my-model", "-o", tmp_path / "new")[0] == 0
    modules = {path.name: path.read_text() for path in (tmp_path / "new" / "my_model").iterdir()}
    write(tmp_path / "site", "my-model", "my_model", modules)
    done = command(tmp_path / "site", "check", "my_model")
    assert done.returncode == 0 and "2 records checked: 2 tested and passed." in done.stdout, done.stdout + done.stderr
    (tmp_path / "x.csv").write_text("id,time,a,b,c\n" + "".join(f"{i // 9},{i % 9},{i},{-i},0\n" for i in range(27)))
    for arguments in (
        ("fit", "my-model-subspace", "x.csv", "-o", "fit"),
        ("apply", "fit", "x.csv", "-o", "out.csv"),
        ("solve", "my-model.subspace", "x.csv", "--set", "n_components=1", "-o", "solve"),
    ):
        done = command(tmp_path / "site", *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = command(None, "apply", "fit", "x.csv", "-o", "again.csv", cwd=tmp_path)
    assert done.returncode == 2 and "of plugin 'my-model' (my-model 1.2), which is not available" in done.stderr


@pytest.mark.slow
def test_what_the_page_deletes_for_a_kernel_leaves_a_plugin(run: Run, tmp_path: Path) -> None:
    """The kernel and the hook of docs/develop/plugin.md, in place of model and estimator."""
    page = (ROOT / "docs" / "develop" / "plugin.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (kernel,) = (block.partition("record = ")[0] for block in blocks if "@ms.kernel(" in block)
    (hook,) = (block for block in blocks if "my_model.kernel:make" in block)
    assert run("new-plugin", "my-model", "-o", tmp_path / "new")[0] == 0
    modules = {path.name: path.read_text() for path in (tmp_path / "new" / "my_model").iterdir()}
    del modules["model.py"], modules["estimator.py"]
    imports = "import autograd.numpy as np\nimport manifoldseq as ms\n"
    modules |= {
        "__init__.py": "",
        "_plugin.py": hook,
        "kernel.py": f"{imports}{kernel}\ndef make(): return two_steps\n",
    }
    write(tmp_path / "site", "my-model", "my_model", modules)
    done = command(tmp_path / "site", "check", "my_model")
    assert done.returncode == 0 and "1 record checked: 1 tested and passed." in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("My_Model", "cannot name a plugin"),
        ("../up", "cannot name a plugin"),
        ("class", "is already a keyword or standard module of Python, or an installed package"),
        ("json", "is already a keyword or standard module of Python, or an installed package"),
        ("numpy", "is already a keyword or standard module of Python, or an installed package"),
    ],
)
def test_wrong_names_raise_an_error(run: Run, tmp_path: Path, name: str, sentence: str) -> None:
    status, _, err = run("new-plugin", name, "-o", tmp_path / "new")
    assert status == 2 and sentence in err and not (tmp_path / "new").exists()


def test_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    status, _, err = run("new-plugin", "my-model", "-o", tmp_path)
    assert status == 2 and "exists already" in err and not list(tmp_path.iterdir())
    status, _, err = run("new-plugin", "my-model", "-o", "/proc/no/such")
    assert status == 2 and "cannot be written" in err


@pytest.mark.slow
def test_distribution_can_be_installed(run: Run, tmp_path: Path) -> None:
    """Build it as pip does, and find it by its entry point."""
    assert run("new-plugin", "my-model", "-o", tmp_path / "new")[0] == 0
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*pip, "--target", tmp_path / "site", tmp_path / "new"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "my-model.subspace" in command(tmp_path / "site", "list", "models").stdout
