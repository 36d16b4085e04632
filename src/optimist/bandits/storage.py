"""Policies on disk: one ``.npz`` of plain arrays and a JSON header. Reading executes no code: pickle is refused."""

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.files import write_atomically

Arrays = dict[str, NDArray]
"""The arrays of a state, by name."""

FORMAT = "optimist-bandit-2"
_FORMER = {"optimist-bandit-1": "Optimist 0.1"}
_HEADER = "header"
_MANY = 1_000_000
_COUNTS = ("samples", "counts", "rerandomizations", "clocks", "last")


class Saved(NamedTuple):
    """What a file holds: the name of the policy, the arguments of its constructor, its state."""

    policy: str
    parameters: dict[str, Any]
    arrays: Arrays


def write(path: str | Path, saved: Saved) -> None:
    """Writes the file whole or not at all; what is there and is no regular file is refused."""
    header = json.dumps({"format": FORMAT, "policy": saved.policy, "parameters": saved.parameters})
    content = saved.arrays | {_HEADER: np.array(header)}
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **content))


def read(path: str | Path) -> Saved:
    """What the file holds; a ValueError in words for a file that is cut short, foreign, hostile or not finite."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no saved policy at {path}")
    with path.open("rb"):  # no permission is another error than no policy
        pass
    try:
        arrays = _arrays(path)
        header = json.loads(str(arrays.pop(_HEADER)))
        form, policy, parameters = header["format"], header["policy"], header["parameters"]
    except Exception as problem:  # whatever a broken or hostile file makes NumPy, zipfile, zlib and json raise
        reason = f"{type(problem).__name__}: {problem}"
        raise ValueError(f"{path} is not a policy saved by Optimist, or it was cut short ({reason})") from problem
    if form != FORMAT:
        by = f"by {_FORMER[form]}" if isinstance(form, str) and form in _FORMER else f"in the format {str(form)[:80]!r}"
        raise ValueError(f"{path} is a policy saved {by}, which this version cannot read ({FORMAT}): train it anew")
    if not isinstance(policy, str) or not isinstance(parameters, dict):
        raise ValueError(f"{path} has a header that names no policy with parameters: {str(header)[:200]}")
    _require_plausible(path, parameters, arrays)
    return Saved(policy, parameters, arrays)


def _arrays(path: Path) -> Arrays:
    """Every array of the file. Ours are stored, not compressed, so that none is larger than the file."""
    with zipfile.ZipFile(path) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("it is compressed")
    with np.load(path, allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("it has members that are no arrays")  # NumPy gives their bytes
    return arrays


def _require_plausible(path: Path, parameters: dict[str, Any], arrays: Arrays) -> None:
    """An error for numbers that no saved policy has: before a policy of that size is made."""
    limit = max(_MANY, sum(array.nbytes for array in arrays.values()))
    inside = parameters.get("policy")
    nested = inside.get("parameters") if isinstance(inside, dict) else None  # of a policy around another
    sizes = parameters | (nested if isinstance(nested, dict) else {})
    counts = ("n_arms", "ensemble_size") if "keys" in arrays else ("n_features", "n_arms", "ensemble_size")
    for name in counts:  # a sparse state has few rows for many features
        if isinstance(value := sizes.get(name), int) and value > limit:
            raise ValueError(f"{path} says {name}={value}, but holds only {limit} bytes: it was cut short or forged")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{path} holds numbers that are not finite, in {name}: the policy had diverged")
        if array.dtype.kind == "i" and name in _COUNTS and (array < 0).any():
            raise ValueError(f"{path} holds counts below 0, in {name}: it was forged")
    if "streams" in arrays and not arrays["streams"].any():
        raise ValueError(f"{path} holds no random state: it was forged")


def require_same_layout(own: Arrays, given: Arrays) -> None:
    """An error where the given arrays are not those of ``own`` in name, shape and type."""
    layout = {name: (array.shape, array.dtype) for name, array in own.items()}
    found = {name: (array.shape, array.dtype) for name, array in given.items()}
    if layout != found:
        wrong = sorted(name for name in layout.keys() | found.keys() if layout.get(name) != found.get(name))
        raise ValueError(f"the saved state does not fit this policy: {', '.join(wrong)} differ in shape or type")
