"""Model files: ``model.npz`` for the arrays, ``model.json`` for other values; loading executes no code."""

from __future__ import annotations

import io
import json
import zipfile
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from .. import hooks
from .._quoted import quoted
from .._result import Result
from ..hooks._lookup import asked_as, stored
from ._checkpoint import interrupts_held_back
from ._files import write_all_durably
from ._limits import OVERHEAD, FilePath, ReadError, decoding, read_bytes, require_memory
from ._model_codec import (
    RESULT,
    Encoder,
    Outside,
    attributes,
    decode,
    decode_estimator,
    parameters,
    stored_types,
)
from ._numpy_files import Loader, members_of

FORMAT = 1
ARRAYS, DOCUMENT = "model.npz", "model.json"


class ModelError(ValueError):
    """A model cannot be saved or loaded. The message names the model, the reason and the remedy."""


def save_model(model: Any, directory: FilePath) -> None:
    """Save a fitted estimator, or a `Result`, as ``model.npz`` and ``model.json``.

    Two runs with the same results write the same ``model.npz``, byte for byte: measured times (attributes, fields and
    dict entries called ``time`` or ``…_time``) are stored in ``model.json``, with all values that are not arrays.

    Parameters
    ----------
    model : estimator or Result
        An estimator of a registered class. Its parameters and fitted attributes may be numbers, strings, None, arrays,
        and lists, tuples and dicts of these. They may also be registered kernels, solvers and rules that are
        dataclasses, and dataclasses and fitted estimators whose classes are listed in the class attribute
        ``stored_types`` of the estimator.
    directory : str or path-like
        It is created if needed. Both files are written and synced under temporary names and then renamed,
        ``model.json`` last. If the disk is full, an earlier model remains, and Ctrl-C waits until both files are
        written.

    Raises
    ------
    ModelError
        If the estimator is not registered, or has an attribute of another type. The message names the estimator or the
        attribute.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> from tempfile import TemporaryDirectory
    >>> identifier = ms.get_estimator("lds-identifier")(n_states=1).fit([[[0.0], [1.0], [0.5]]])
    >>> with TemporaryDirectory() as folder:
    ...     ms.storage.save_model(identifier, folder)
    ...     ms.storage.load_model(folder)
    LDSIdentifier(n_states=1)
    """
    encoder = Encoder()
    try:
        if isinstance(model, Result):
            plugin, content = None, {"result": encoder.encode(model, "", RESULT)}
        else:
            plugin, record = _registered(model)
            types = stored_types(type(model))
            content = {
                "estimator": record.name,
                "plugin": plugin.name,
                "parameters": encoder.members(parameters(model), "", types),
                "attributes": encoder.members(attributes(model), "", types),
            }
    except Outside as error:
        raise ModelError(f"{type(model).__name__} cannot be saved: {error}") from error
    data = encoder.packed()
    document = {"format": FORMAT, "sha256": sha256(data).hexdigest(), "versions": _versions(plugin), **content}
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    with interrupts_held_back():
        write_all_durably(path, {ARRAYS: data, DOCUMENT: f"{text}\n".encode()})


def load_model(directory: FilePath) -> Any:
    """Load an estimator or a result that `save_model` wrote.

    The files cannot execute or import code: the class of an estimator, a kernel or a solver is found by its registered
    name, and classes of attributes by the ``stored_types`` of the estimator.

    Parameters
    ----------
    directory : str or path-like

    Returns
    -------
    estimator or Result

    Raises
    ------
    ModelError
        If there is no model, if it has another format, if ``model.npz`` does not match ``model.json``, if a file is
        damaged or a header claims more bytes than the file has, or if no plugin registers the estimator.
    """
    path = Path(directory)
    document, arrays = _document(path), {}
    try:
        data = read_bytes(path / ARRAYS)
    except (OSError, ReadError) as error:
        raise ModelError(f"{path / ARRAYS} cannot be read ({_sentence(error)}): save the model again") from error
    if sha256(data).hexdigest() != document.get("sha256"):
        raise ModelError(
            f"{path / ARRAYS} was damaged or replaced (SHA-256 differs from {DOCUMENT}): save the model again"
        )
    try:
        with decoding(path / ARRAYS, "a model's arrays"), zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = members_of(path / ARRAYS, archive, len(data))
            load = Loader(path / ARRAYS, archive, members)
            total = sum(info.file_size for info in members.values())  # which `decode` copies once more
            require_memory(path / ARRAYS, len(data) + 2 * total + OVERHEAD * len(members), taken=len(data))
            arrays = {key: load(key) for key in members}
        if "result" in document:
            return decode(document["result"], arrays, RESULT)
        record = _record(path, document)
        return decode_estimator(record.factory, document, arrays, stored_types(cast(Any, record.factory)))
    except ModelError:
        raise
    except Exception as error:  # whatever a damaged document makes of its parts
        raise ModelError(f"{path} contains a model that cannot be restored: {_sentence(error)}") from error


def load(run_dir: FilePath) -> Any:
    """Load the fitted estimator, or the result, of a run directory.

    Parameters
    ----------
    run_dir : str or path-like
        A directory that ``manifoldseq fit -o``, ``manifoldseq solve -o`` or `manifoldseq.storage.save_model` has
        written.

    Returns
    -------
    estimator or Result

    Raises
    ------
    ModelError
        A ValueError, as for `manifoldseq.storage.load_model`, or if the run is not finished.

    Examples
    --------
    >>> import manifoldseq as ms
    >>> model = ms.load("runs/demo")  # doctest: +SKIP
    >>> model.predict(sequences)  # doctest: +SKIP
    """
    path = Path(run_dir)
    if not path.is_dir():
        raise ModelError(f"the directory {path} does not exist: pass a run directory, such as runs/demo")
    if not (path / DOCUMENT).exists():
        try:
            state = json.loads(read_bytes(path / "run.json"))["state"]
        except (OSError, ValueError, KeyError, TypeError):
            state = None
        if state is not None:
            raise ModelError(
                f"the run in {path} has no model yet (its state is {quoted(state)}): continue the run with --resume"
            )
    return load_model(path)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_bytes(path / DOCUMENT))
    except FileNotFoundError as error:
        raise ModelError(f"{path} contains no model: there is no {DOCUMENT}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path / DOCUMENT} cannot be read ({_sentence(error)}): save the model again") from error
    found = document.get("format") if isinstance(document, dict) else None
    if type(found) is not int or found != FORMAT:
        raise ModelError(
            f"{path / DOCUMENT} has format {quoted(found)}, but this version reads format {FORMAT}: install the "
            "version of manifoldseq that saved it, or fit the model again"
        )
    return document


def registered_name(estimator: Any) -> str:
    """Return the name that finds the record of an estimator's class."""
    return asked_as(*_registered(estimator))


def _registered(model: Any) -> tuple[hooks.Plugin, hooks.EstimatorSpec]:
    """Return the record of an estimator's class and its plugin."""
    found = hooks.record_of(model)
    if found is None:
        raise ModelError(
            f"{type(model).__name__} is not registered, so a model file cannot name it: "
            "register it with manifoldseq_estimators, or manifoldseq.register(manifoldseq.hooks.EstimatorSpec(…))"
        )
    return found


def _record(path: Path, document: dict[str, Any]) -> hooks.EstimatorSpec:
    name, plugin = str(document["estimator"]), str(document["plugin"])
    try:
        return stored(hooks.EstimatorSpec, name, plugin)
    except (hooks.UnknownName, hooks.AmbiguousName, ImportError) as error:
        package = document.get("versions", {}).get("plugin", "")
        origin = f"plugin {plugin!r}" + (f" ({package})" if package else "")
        raise ModelError(
            f"{path} contains an estimator {quoted(name)} of {origin}, which is not available: {error}"
        ) from error


def _versions(plugin: hooks.Plugin | None) -> dict[str, str]:
    versions = package_versions()
    if plugin is not None and plugin.distribution:
        versions["plugin"] = f"{plugin.distribution} {plugin.version}"
    return versions


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that affect numerical results."""
    found = {}
    for name in ("manifoldseq", "numpy", "scipy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: {text}"
