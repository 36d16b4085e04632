"""Thousands of damaged and forged files of every policy: each is refused with a ValueError, or loads a sound policy."""

import json

import numpy as np
import pytest
import scipy.sparse
from lineup_cases import VARIANTS, make

from optimist.bandits import ACB, LinUCB, load

D = 3
DAMAGED, FORGED = 120, 60  # files per policy
HOSTILE = [
    None, True, -1, 0, 1, 2, 3, 7, 10**6, 10**9, 10**30, -0.5, 0.5, 1e308, -1e-320, float("nan"), float("inf"),
    "", "theory", "rerandomized", "lazy", "sgd", "rms", "float32", "__class__", "\x00", [], [3], {}, {"name": "ACB"},
    [[[[]]]], {"name": "Stochastic", "parameters": {}},
]  # fmt: skip


def trained(name):
    policy = make(name, n_features=D)
    return policy.partial_fit(np.eye(D), np.arange(float(D)))


def damaged(whole, rng):
    """The bytes with a few flipped, cut, doubled, moved, zeroed or filled by chance."""
    content = bytearray(whole)
    for _ in range(rng.integers(1, 4)):
        start = int(rng.integers(len(content) + 1))
        stop = min(len(content), start + int(rng.integers(1, 60)))
        kind = rng.integers(7)
        if kind == 0 and start < len(content):
            content[start] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del content[start:]
        elif kind == 2:
            del content[start:stop]
        elif kind == 3:
            content[start:start] = content[start:stop]
        elif kind == 4:
            content[start:stop] = bytes(stop - start)
        elif kind == 5:
            content[start:stop] = rng.bytes(stop - start)
        else:
            elsewhere = int(rng.integers(len(content) + 1))
            content[elsewhere:elsewhere] = content[start:stop]
    return bytes(content)


def forged(header, arrays, rng):
    """A whole file, checksums and all, whose header or arrays are not those of a policy."""
    header, arrays = json.loads(json.dumps(header)), dict(arrays)
    kind = rng.integers(6)
    if kind == 0:
        header[rng.choice(list(header))] = HOSTILE[rng.integers(len(HOSTILE))]
    elif kind <= 2:
        inner = header["parameters"]
        if isinstance(inner.get("policy"), dict) and rng.random() < 0.5:
            inner = inner["policy"]["parameters"]
        for name in rng.choice(list(inner), size=min(len(inner), int(rng.integers(1, 4))), replace=False):
            inner[str(name)] = HOSTILE[rng.integers(len(HOSTILE))]
    else:
        name = str(rng.choice(list(arrays)))
        array = arrays[name]
        if kind == 3:
            changes = [
                lambda: array[..., :-1],
                lambda: array.astype(np.complex128),
                lambda: array.astype(array.dtype.newbyteorder()),
                lambda: array[None],
                lambda: np.array("text"),
                lambda: np.zeros(0),
            ]
            arrays[name] = changes[rng.integers(len(changes))]()
        elif kind == 4:
            del arrays[name]
        else:
            array = array.copy()
            values = [np.nan, np.inf, -np.inf, -1, 0, 1e300, 2**62] if array.dtype.kind == "f" else [0, 1, 2**62]
            values += [-1, -(2**62)] if array.dtype.kind == "i" else []
            array.flat[rng.integers(array.size)] = values[rng.integers(len(values))]
            arrays[name] = array
    return header, arrays


def outcome(path):
    """None if the file was refused in the one way; otherwise the policy, which has been used."""
    try:
        policy = load(path)
    except ValueError as refusal:
        assert str(path) in str(refusal)  # noqa: PT017
        return None
    x = np.eye(2, policy.n_features)
    try:
        policy.predict(x[:1] if policy.n_arms else x)
        policy.partial_fit(x[:1], [0.5], arm=[0] if policy.n_arms else None)
        repr(policy)
    except (FloatingPointError, np.linalg.LinAlgError):
        pass  # finite numbers that are no possible state, say a covariance that is not positive
    except (ValueError, MemoryError) as refusal:
        assert "memory" in str(refusal) or "retired" in str(refusal), refusal  # noqa: PT017
    return policy


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, where forged numbers overflow
def test_damaged_and_forged_files(name, tmp_path):
    path, rng = tmp_path / "policy.npz", np.random.default_rng(sum(name.encode()))
    trained(name).save(path)
    whole = path.read_bytes()
    with np.load(path) as content:
        arrays = dict(content)
    header = json.loads(str(arrays.pop("header")))
    refused = 0
    for _ in range(DAMAGED):
        path.write_bytes(damaged(whole, rng))
        refused += outcome(path) is None
    assert refused > DAMAGED / 2
    refused = 0
    for _ in range(FORGED):
        other, state = forged(header, arrays, rng)
        np.savez(path, header=np.array(json.dumps(other)), **state)
        refused += outcome(path) is None
    assert refused > FORGED / 3
    path.write_bytes(whole)
    assert outcome(path) is not None


def test_a_small_file_makes_no_large_policy(tmp_path):
    """A megabyte of numbers could name a policy of gigabytes, each number below what is plausible by itself."""
    path = tmp_path / "policy.npz"
    ACB(3).save(path)
    with np.load(path) as content:
        arrays = dict(content)
    header = json.loads(str(arrays.pop("header")))
    for sizes in ({"n_features": 20_000}, {"n_features": 500, "n_arms": 900_000}, {"ensemble_size": 999_999}):
        header["parameters"] |= sizes
        np.savez(path, header=np.array(json.dumps(header)), **arrays)
        with pytest.raises(ValueError, match=r"needs .* of memory, and 16\.0 MiB are allowed here"):
            load(path)


def test_forged_keys_of_a_sparse_state(tmp_path):
    """Of 2^20 features only those that were learned from are kept: their keys are read by compiled code, unchecked."""
    path, d = tmp_path / "policy.npz", 2**20
    x = scipy.sparse.csr_array((np.ones(3), ([0, 0, 0], [5, 1_000, d - 1])), shape=(1, d))
    policy = ACB(d, solver="sgd").partial_fit(x, [1.0])
    policy.save(path)
    np.testing.assert_array_equal(load(path).mean(x), policy.mean(x))
    with np.load(path) as content:
        whole = dict(content)
    keys = whole["keys"]
    for wrong in (keys - 2**40, keys + d, np.full_like(keys, 5), keys[:2], keys.astype(np.int32), keys[:, None]):
        np.savez(path, **whole | {"keys": wrong})
        with pytest.raises(ValueError, match="holds no ACB that this version can make"):
            load(path)


def test_a_large_policy_loads(tmp_path):
    path = tmp_path / "policy.npz"
    LinUCB(1_600).save(path)  # 20 MB
    assert load(path).n_features == 1_600


def test_a_file_that_may_not_be_read_is_another_error(tmp_path, monkeypatch):
    path = tmp_path / "policy.npz"
    ACB(3).save(path)

    def refuse(*_, **__):
        raise PermissionError(f"[Errno 13] Permission denied: '{path}'")

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(PermissionError):
        load(path)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_every_array_of_every_policy_must_be_finite(name, value, tmp_path):
    path = tmp_path / "policy.npz"
    trained(name).save(path)
    with np.load(path) as content:
        whole = dict(content)
    floats = [key for key, array in whole.items() if array.dtype.kind == "f" and array.size]
    assert floats
    for key in floats:
        wrong = whole[key].copy()
        wrong.flat[-1] = value
        np.savez(path, **whole | {key: wrong})
        with pytest.raises(ValueError, match=f"not finite, in {key}: the policy had diverged"):
            load(path)
