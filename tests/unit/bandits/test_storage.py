"""Files: foreign, truncated and malicious ones are refused, and saving is whole or not at all."""

import json
import os

import numpy as np
import pytest

from optimist.bandits import ACB, load


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "policy.npz"
    ACB(3).save(path)
    return path


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no saved policy"):
        load(tmp_path / "nothing.npz")


def test_a_truncated_file(saved):
    whole = saved.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 5):
        saved.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is not a policy saved by this version"):
            load(saved)


def test_a_foreign_file(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, a=np.arange(3))
    with pytest.raises(ValueError, match="is not a policy saved"):
        load(path)


def test_loading_executes_no_code(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'sprung'}",)

    path = tmp_path / "trap.npz"
    np.savez(path, header=np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="is not a policy saved"):
        load(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "os.system"}, "unknown policy 'os.system'"),
        ({"format": "optimist-bandit-99"}, "is not a policy saved"),
        ({"parameters": {"n_features": 3, "nonsense": 1}}, "parameters that ACB does not take"),
        ({"parameters": {"n_features": 4}}, "does not fit this policy"),
    ],
)
def test_a_header_that_does_not_fit(saved, change, message):
    with np.load(saved) as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header"))) | change
    np.savez(saved, header=np.array(json.dumps(header)), **arrays)
    with pytest.raises(ValueError, match=message):
        load(saved)


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(np, "savez", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        ACB(5).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
