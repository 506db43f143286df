"""``manifoldseq new-plugin``: writes a plugin package whose tests pass."""

import keyword
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from .._quoted import quoted
from ._shared import BadInput

_TEMPLATES = Path(__file__).parent / "templates" / "plugin"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")


@click.command("new-plugin")
@click.argument("name")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Folder to write, which must not exist yet [./NAME]."
)
def new_plugin(name: str, output: Path | None) -> None:
    """Write a new plugin whose tests pass.

    The plugin is a distribution with an example model, an estimator, tests and a README. Replace the model by your own.
    NAME must consist of lower-case letters, digits and hyphens. The name of the import package has underscores in place
    of the hyphens.

    \b
    Example:
      manifoldseq new-plugin my-model
      cd my-model && pip install --editable '.[test]'
      pytest && manifoldseq check my_model
    """
    package = name.replace("-", "_")
    folder = Path(name) if output is None else output
    _check(name, package, folder)
    names = {"name": name, "package": package, "estimator": package.title().replace("_", "") + "Subspace"}
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        files = _write(temporary, names)
        temporary.rename(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise BadInput(f"{folder} cannot be written: {error}") from error
    for file in files:
        click.echo(folder / file)
    click.echo(f"Next: cd {folder} && pip install --editable '.[test]' && pytest && manifoldseq check {package}")


def _check(name: str, package: str, folder: Path) -> None:
    if not _NAME.match(name):
        raise BadInput(
            f"{quoted(name)} cannot name a plugin: use lower-case letters, digits and hyphens, such as my-model"
        )
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or find_spec(package) is not None:
        raise BadInput(
            f"{quoted(package)} is already a keyword or standard module of Python, or an installed package: choose "
            "another name"
        )
    if folder.exists():
        raise BadInput(f"{folder} exists already: choose another name, or another folder with -o")


def _write(folder: Path, names: dict[str, str]) -> list[Path]:
    """Render every template below `folder`; ``package`` in a path stands for the name of the package."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    written = []
    for template in sorted(_TEMPLATES.rglob("*.jinja")):
        relative = template.relative_to(_TEMPLATES).with_suffix("")
        target = Path(*(part.replace("package", names["package"]) for part in relative.parts))
        text = environment.from_string(template.read_text(encoding="utf-8")).render(names)
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        (folder / target).write_text(text, encoding="utf-8")
        written.append(target)
    return written
