"""Settings written as TOML, which Python can only read."""

import json
from collections.abc import Mapping
from typing import Any


def toml(settings: Mapping[str, Any]) -> str:
    """Write settings as TOML: scalars, lists, and tables; None and empty tables are left out."""
    flat = [
        f"{_key(name)} = {_toml(value)}" for name, value in settings.items() if not isinstance(value, Mapping | None)
    ]
    for table, values in settings.items():
        if isinstance(values, Mapping) and values:
            flat += ["", f"[{_key(table)}]"]
            flat += [f"{_key(name)} = {_toml(value)}" for name, value in values.items() if value is not None]
    return "\n".join(flat) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(name)} = {_toml(item)}' for name, item in value.items())}}}"
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)
