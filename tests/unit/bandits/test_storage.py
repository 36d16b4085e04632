"""Files: whatever is not a saved policy is refused with one kind of error, and only regular files are replaced."""

import io
import json
import os
import stat
import zipfile

import numpy as np
import pytest

from optimist.bandits import ACB, load


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "policy.npz"
    ACB(3).partial_fit(np.eye(3), np.arange(3.0)).save(path)
    return path


def rewrite(path, header=None, **changes):
    """The saved file with another header, or with other arrays."""
    with np.load(path) as file:
        arrays = dict(file)
    text = json.loads(str(arrays.pop("header"))) | (header or {})
    np.savez(path, header=np.array(json.dumps(text)), **arrays | changes)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no saved policy"):
        load(tmp_path / "nothing.npz")


def test_a_truncated_file(saved):
    whole = saved.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 5):
        saved.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="is not a policy saved by Optimist, or it was cut short"):
            load(saved)


@pytest.mark.parametrize("content", [b"", b"text", b"\x93NUMPY\x01\x00", b"PK\x03\x04" + bytes(30), bytes(range(256))])
def test_other_files(tmp_path, content):
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a policy saved"):
        load(path)


def test_arrays_of_somebody_else(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, a=np.arange(3))
    with pytest.raises(ValueError, match="is not a policy saved"):
        load(path)


def test_every_flipped_byte_is_refused_or_harmless(saved):
    # A flip in the data of an array fails its checksum; one in the zip's own book-keeping may go unseen. Nothing but a
    # ValueError may come of it: zipfile alone raises NotImplementedError, RuntimeError, zlib.error, struct.error.
    whole = bytearray(saved.read_bytes())
    refused = 0
    for place in range(0, len(whole), 7):
        for bits in (0x01, 0x80, 0xFF):
            flipped = whole.copy()
            flipped[place] ^= bits
            saved.write_bytes(flipped)
            try:
                load(saved)
            except ValueError:
                refused += 1
    assert refused > 300


def test_compressed_files_are_refused_unread(saved):
    # A kilobyte of zip can hold gigabytes; what we write is stored as it is.
    with np.load(saved) as file:
        np.savez_compressed(saved, **dict(file))
    with pytest.raises(ValueError, match="it is compressed"):
        load(saved)


@pytest.mark.parametrize("method", [98, 12, 14])
def test_unknown_compression_is_refused(saved, method):
    whole = saved.read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        start = archive.infolist()[0].header_offset
    changed = bytearray(whole)
    changed[start + 8 : start + 10] = method.to_bytes(2, "little")
    central = whole.index(b"PK\x01\x02")
    changed[central + 10 : central + 12] = method.to_bytes(2, "little")
    saved.write_bytes(changed)
    with pytest.raises(ValueError, match="is not a policy saved"):
        load(saved)


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
        ({"policy": ["ACB"]}, "names no policy"),
        ({"format": "optimist-bandit-99"}, "in the format 'optimist-bandit-99'"),
        ({"format": "optimist-bandit-1"}, r"saved by Optimist 0\.1, which this version cannot read.*train it anew"),
        ({"parameters": {"n_features": 3, "nonsense": 1}}, "no ACB that this version can make"),
        ({"parameters": {"n_features": 4}}, "does not fit this policy"),
        ({"parameters": {"n_features": -4}}, "n_features must be a whole number"),
        ({"parameters": [3]}, "names no policy with parameters"),
        ({"parameters": {"n_features": 10**12}}, "cut short or forged"),
        ({"parameters": {"n_features": 3, "ensemble_size": 10**9}}, "cut short or forged"),
    ],
)
def test_a_header_that_does_not_fit(saved, change, message):
    rewrite(saved, change)
    with pytest.raises(ValueError, match=message):
        load(saved)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_state_that_is_not_finite(saved, value):
    with np.load(saved) as file:
        columns = file["columns"]
    columns[0, 0, 1, 2] = value
    rewrite(saved, columns=columns)
    with pytest.raises(ValueError, match="not finite, in columns"):
        load(saved)


def test_a_random_state_of_zeros_would_draw_zeros_for_ever(saved):
    rewrite(saved, streams=np.zeros((1, 4), np.uint64))
    with pytest.raises(ValueError, match="no random state"):
        load(saved)


def test_only_regular_files_are_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match="no regular file"):
        ACB(2).save(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        ACB(2).save(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        ACB(2).save(tmp_path / "nowhere" / "policy.npz")
    link, target = tmp_path / "link.npz", tmp_path / "target.npz"
    link.symlink_to(target)
    ACB(2).save(link)
    assert link.is_symlink()
    assert load(target).parameters == ACB(2).parameters


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(np, "savez", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        ACB(5).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
