"""A nested state as one safetensors file: tensors and arrays as such, all else as JSON. Reading executes no code.

The file's last tensor is a digest of every byte before it, so that whatever was cut off or changed is noticed.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

FORMAT, VERSION = "optimist state", "1"
_DIGEST = "digest"
_DIGEST_BYTES = 16
_CHUNK = 1 << 20
_MARK = "$"  # {"$tensor": name} stands in the JSON where the tensor was; a key "$key" of the user becomes "$$key"
_TENSOR, _ARRAY = f"{_MARK}tensor", f"{_MARK}array"
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class NotAStateFile(ValueError):
    """The file is truncated, damaged, or of another kind or version; the message says which."""


class StateFile:
    """A state ready to be written: its tensors on the CPU, its header, and its ``size`` in bytes."""

    def __init__(self, state: Mapping[str, Any], labels: Mapping[str, str]):
        found: dict[str, Tensor] = {}
        tree = _without_tensors(state, "state", found)
        # The widest first: each tensor then starts at a multiple of its item size, as readers expect.
        self._tensors = dict(sorted(found.items(), key=lambda item: -item[1].element_size()))
        entries: dict[str, Any] = {
            "__metadata__": {"format": FORMAT, "version": VERSION, **labels, "state": json.dumps(tree)}
        }
        end = 0
        for name, tensor in self._tensors.items():
            start, end = end, end + tensor.nbytes
            entries[name] = _entry(_DTYPES[tensor.dtype], list(tensor.shape), start, end)
        entries[_DIGEST] = _entry("U8", [_DIGEST_BYTES], end, end + _DIGEST_BYTES)
        header = json.dumps(entries).encode()
        header += b" " * (-len(header) % 8)
        self._opening = len(header).to_bytes(8, "little") + header
        self.size = len(self._opening) + end + _DIGEST_BYTES

    def write(self, file: BinaryIO) -> None:
        """Write all of it to an open file."""
        digest = _new_digest()
        for part in (self._opening, *map(_bytes_of, self._tensors.values())):
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def read_labels(path: Path) -> dict[str, str]:
    """The labels of the file at ``path``, of which every byte is checked."""
    _require_intact(path)
    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}


def read(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The labels and the state of the file at ``path``; tensors on the CPU, tuples as lists."""
    labels = read_labels(path)
    if (labels.get("format"), labels.get("version")) != (FORMAT, VERSION):
        raise NotAStateFile(
            f"it says to be {labels.get('format')!r} version {labels.get('version')!r}, "
            f"and {FORMAT!r} version {VERSION!r} is read here"
        )
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (it is not a dict)
    state = _with_tensors(json.loads(labels.pop("state")), tensors)
    return labels, state


def _require_intact(path: Path) -> None:
    digest, left = _new_digest(), path.stat().st_size - _DIGEST_BYTES
    if left <= 0:
        raise NotAStateFile(f"it has only {left + _DIGEST_BYTES} bytes")
    with path.open("rb") as file:
        while left > 0 and (chunk := file.read(min(left, _CHUNK))):
            digest.update(chunk)
            left -= len(chunk)
        if file.read() != digest.digest():
            raise NotAStateFile("its digest does not match: it was cut off, damaged, or never a state file")


def _without_tensors(value: Any, where: str, found: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return {_TENSOR: _keep(value.detach().cpu().contiguous(), where, found)}
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub" or not value.dtype.isnative:
            raise TypeError(f"{where} must hold numbers or booleans to be saved, got an array of {value.dtype}")
        return {_ARRAY: _keep(torch.from_numpy(np.require(value, requirements=["C", "W"])), where, found)}
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"{where} must have strings as keys to be saved, got {odd}")
        return {
            _MARK * key.startswith(_MARK) + key: _without_tensors(entry, f"{where}.{key}", found)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_without_tensors(entry, f"{where}.{k}", found) for k, entry in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"{where} cannot be saved: expected tensors, arrays, numbers, strings, None, dicts and lists, "
        f"got {type(value).__name__}"
    )


def _keep(tensor: Tensor, where: str, found: dict[str, Tensor]) -> str:
    if tensor.dtype not in _DTYPES:
        raise TypeError(f"{where} cannot be saved: the format knows no {tensor.dtype}")
    name = f"{len(found)}.{where}"  # the number keeps names apart whatever the keys contain
    found[name] = tensor
    return name


def _with_tensors(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_TENSOR}:
            return tensors[value[_TENSOR]]
        if value.keys() == {_ARRAY}:
            return tensors[value[_ARRAY]].numpy()
        return {key.removeprefix(_MARK): _with_tensors(entry, tensors) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_tensors(entry, tensors) for entry in value]
    return value


def _entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def _bytes_of(tensor: Tensor) -> memoryview:
    if tensor.numel() == 0:
        return memoryview(b"")  # an empty tensor may have strides that no view accepts
    return tensor.flatten().view(torch.uint8).numpy().data


def _new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)
