"""Checkpoints: what comes back, what damage is noticed, and what a kill or a full disk leaves behind."""

import math
import os
import pickle
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from optimist.training.runs import checkpoints
from optimist.training.runs.checkpoints import (
    BEST,
    DamagedCheckpoint,
    best,
    newest,
    require_writable,
    save,
    save_if_best,
    size_in_bytes,
)

SMALL = {"weights": torch.arange(6.0).reshape(2, 3), "steps": np.arange(3), "name": "acb"}


def came_back(folder: Path, state: dict[str, Any]) -> dict[str, Any]:
    save(folder, 0, state)
    return newest(folder)[1]


def assert_same(got: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert isinstance(got, torch.Tensor)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        assert bits(got.numpy()) == bits(expected.detach().contiguous().numpy())
    elif isinstance(expected, np.ndarray):
        assert isinstance(got, np.ndarray)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        assert bits(got) == bits(expected)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            assert_same(got[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert isinstance(got, list)
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    else:
        assert type(got) is type(expected)
        assert got == expected


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.uint64, torch.bool],
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (5, 7)])
def test_tensors_and_arrays_come_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    values = torch.empty(shape, dtype=dtype).numpy()
    raw = np.random.default_rng(0).integers(0, 2 if dtype == torch.bool else 256, values.nbytes, dtype=np.uint8)
    tensor = torch.from_numpy(np.frombuffer(bytearray(raw), values.dtype).reshape(shape))
    state = {"tensor": tensor, "array": tensor.numpy().copy(), "odd": torch.ones(3, dtype=torch.bool)}
    assert_same(came_back(tmp_path, state), state)


def test_not_a_number_infinity_and_negative_zero_keep_their_bits(tmp_path: Path) -> None:
    values = np.array([0x7FC00001, 0xFF800000, 0x80000000, 1], np.uint32).view(np.float32)
    state = {"tensor": torch.from_numpy(values), "array": values, "number": float("inf"), "zero": -0.0}
    assert_same(came_back(tmp_path, state), state)


def test_views_shared_and_read_only_memory_come_back_as_values_of_their_own(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4).requires_grad_()
    fixed = np.arange(8).reshape(2, 4)
    fixed.flags.writeable = False
    state = {
        "whole": whole,
        "again": whole,
        "turned": whole.T,
        "column": whole[:, 1],
        "fixed": fixed,
        "half": fixed[:, ::2],
    }
    got = came_back(tmp_path, state)
    assert_same(got, state)
    got["whole"].zero_()
    got["fixed"][:] = 0
    assert_same(got["again"], whole)
    assert got["turned"].is_contiguous()


def test_generators_nesting_and_names_that_look_alike_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rng.integers(10, size=3, dtype=np.uint32)
    state = {
        "numpy": rng.bit_generator.state,
        "twister": np.random.RandomState(1).get_state(legacy=False),
        "torch": torch.Generator().manual_seed(1).get_state(),
        "big": 2**200,
        "negative": -(2**70),
        "nothing": None,
        "yes": True,
        "text": "ü \n \x00 日本",
        "list": [1, 2.5, [torch.ones(2), {"deep": np.zeros(1)}], []],
        "tuple": (1, (2, 3)),
        "a": {"b": torch.tensor(1)},
        "a.b": torch.tensor(2),
        "__metadata__": torch.tensor(3),
        "$tensor": {"$tensor": "x", "$$": {"$array": torch.tensor(4)}},
        "digest": {},
    }
    got = came_back(tmp_path, state)
    assert_same(got, state)
    again = np.random.default_rng()
    again.bit_generator.state = got["numpy"]
    assert again.integers(2**60) == rng.integers(2**60)


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), trees, max_size=4))
@settings(max_examples=50, deadline=None)
def test_any_tree_of_plain_values_comes_back(tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]) -> None:
    assert_same(came_back(tmp_path_factory.mktemp("tree"), tree), tree)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: 2}, r"state\.here must have strings as keys.*\[1\]"),
        ({1, 2}, r"state\.here cannot be saved.*got set"),
        ([torch.ones(1, dtype=torch.complex128)], r"state\.here\.0 cannot be saved.*complex128"),
        (np.array([object()]), r"state\.here must hold numbers.*object"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        save(tmp_path, 0, {"here": value})
    assert not list(tmp_path.iterdir())


def test_any_reader_of_safetensors_can_open_it_and_its_size_is_known(tmp_path: Path) -> None:
    path = save(tmp_path, 7, SMALL)
    tensors = {name.partition(".")[2]: tensor for name, tensor in load_file(path).items()}
    assert_same(tensors["state.weights"], SMALL["weights"])
    assert path.stat().st_size == size_in_bytes(SMALL)


def test_the_last_two_are_kept_whatever_else_lies_there(tmp_path: Path) -> None:
    (tmp_path / ".step-000000000099.safetensors.7.partial").write_bytes(b"left by a killed run")
    (tmp_path / "notes.txt").write_text("mine")
    for step in (0, 100, 2000, 10**13):
        save(tmp_path, step, {"step": step})
        assert newest(tmp_path) == (step, {"step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "notes.txt",
        "step-000000002000.safetensors",
        "step-10000000000000.safetensors",
    ]


def test_saving_a_step_again_replaces_it_and_removes_damaged_later_ones(tmp_path: Path) -> None:
    for step in (100, 200):
        save(tmp_path, step, {"try": 1})
    (tmp_path / "step-000000000300.safetensors").write_bytes(b"damaged")
    save(tmp_path, 200, {"try": 2})
    assert newest(tmp_path) == (200, {"try": 2})
    assert len(list(tmp_path.iterdir())) == 2


def with_damage(folder: Path, damaged: bytes) -> tuple[int, dict[str, Any]]:
    (folder / "step-000000000200.safetensors").write_bytes(damaged)
    with pytest.warns(DamagedCheckpoint, match=r"step-000000000200\.safetensors cannot be used"):
        return newest(folder)


def test_a_checkpoint_cut_off_anywhere_falls_back_to_the_one_before(tmp_path: Path) -> None:
    save(tmp_path, 100, {"step": 100})
    whole = save(tmp_path, 200, SMALL).read_bytes()
    for length in {*range(0, len(whole), 7), *range(20), *range(len(whole) - 60, len(whole))}:
        assert with_damage(tmp_path, whole[:length]) == (100, {"step": 100})
    assert with_damage(tmp_path, whole + b"\0") == (100, {"step": 100})


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    save(tmp_path, 100, {"step": 100})
    whole = save(tmp_path, 200, SMALL).read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << (place % 8)
        assert with_damage(tmp_path, bytes(changed)) == (100, {"step": 100})


class Exploit:
    """What a pickle reader would execute."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(Exploit.target),)

    target = Path()


def test_foreign_files_are_refused_and_never_executed(tmp_path: Path) -> None:
    save(tmp_path, 100, {"step": 100})
    Exploit.target = tmp_path / "executed"
    torch.save({"state": Exploit()}, tmp_path / "foreign")
    for foreign in (pickle.dumps(Exploit()), (tmp_path / "foreign").read_bytes(), b"", os.urandom(1000)):
        assert with_damage(tmp_path, foreign) == (100, {"step": 100})
    save_file({"weights": torch.ones(3)}, tmp_path / "foreign", metadata={"step": "200"})
    assert with_damage(tmp_path, (tmp_path / "foreign").read_bytes()) == (100, {"step": 100})
    assert not Exploit.target.exists()


def test_another_version_and_another_step_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 100, {"step": 100})
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints.state_files, "VERSION", "2")
        newer = save(tmp_path, 200, SMALL).read_bytes()
    with pytest.warns(DamagedCheckpoint, match=r"version '2', and 'optimist state' version '1' is read"):
        assert newest(tmp_path)[0] == 100
    assert newer
    renamed = (tmp_path / "step-000000000100.safetensors").read_bytes()
    (tmp_path / "step-000000000200.safetensors").write_bytes(renamed)
    with pytest.warns(DamagedCheckpoint, match="of step 100, not of the step in its name"):
        assert newest(tmp_path)[0] == 100


def test_the_best_is_kept_beside_the_last_and_decided_by_success_and_then_by_return(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="it is written at a checkpoint once 100 episodes have ended"):
        best(tmp_path)
    scores = [(0.0, -5.0), (0.0, -3.0), (0.5, -9.0), (0.5, -9.0), (0.4, 99.0), (0.5, -8.0), (math.nan, 1.0)]
    kept = []
    for step, score in enumerate(scores):
        save_if_best(tmp_path, step, {"step": step}, score)
        save(tmp_path, step, {"step": step})
        kept.append(best(tmp_path)[0])
        assert best(tmp_path)[1] == {"step": kept[-1]}
        assert newest(tmp_path)[0] == step
    assert kept == [0, 1, 2, 2, 2, 5, 5]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_damaged_best_one_is_replaced_by_the_next_and_never_stops_a_run(tmp_path: Path) -> None:
    save_if_best(tmp_path, 100, {"step": 100}, (1.0, 1.0))
    (tmp_path / BEST).write_bytes((tmp_path / BEST).read_bytes()[:-1])
    with pytest.raises(ValueError, match="digest"):
        best(tmp_path)
    save_if_best(tmp_path, 200, {"step": 200}, (0.0, 0.0))
    assert best(tmp_path) == (200, {"step": 200})


def test_where_all_others_are_damaged_a_run_goes_on_from_its_best_one(tmp_path: Path) -> None:
    save_if_best(tmp_path, 100, {"step": 100}, (1.0, 1.0))
    for step in (200, 300):
        save(tmp_path, step, {"step": step}).write_bytes(b"")
    with pytest.warns(DamagedCheckpoint) as told:
        assert newest(tmp_path) == (100, {"step": 100})
    assert len(told) == 2
    save(tmp_path, 150, {"step": 150})
    assert sorted(path.name for path in tmp_path.iterdir()) == [BEST, "step-000000000150.safetensors"]


def test_no_checkpoint_at_all_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / ".step-000000000100.safetensors.7.partial").write_bytes(b"")
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(FileNotFoundError, match=r"expected files like step-000000001234\.safetensors"):
            newest(folder)
    (tmp_path / "step-000000000100.safetensors").write_bytes(b"")
    with (
        pytest.warns(DamagedCheckpoint),
        pytest.raises(ValueError, match=r"no checkpoint.*only 0 bytes.*Start the run anew"),
    ):
        newest(tmp_path)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A write beyond ``size`` bytes of a file fails, as on a full disk, even for root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_failed_write_leaves_the_older_checkpoints_and_says_what_to_do(tmp_path: Path) -> None:
    large = {"weights": torch.zeros(1_000_000)}
    message = rf"was not written: .* needs {size_in_bytes(large)} bytes, and \d+ are free"
    with files_of_at_most(100_000), pytest.raises(OSError, match=rf"{message}.*no checkpoint yet"):
        save(tmp_path, 50, large)
    save(tmp_path, 100, {"step": 100})
    save(tmp_path, 200, {"step": 200})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with files_of_at_most(100_000), pytest.raises(OSError, match=rf"{message}.*resumed from step 200"):
        save(tmp_path, 300, large)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_full_disk_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount a small disk")
    try:
        save(tmp_path, 100, {"step": 100})
        with pytest.raises(OSError, match=r"No space left.*resumed from step 100"):
            save(tmp_path, 200, {"weights": torch.zeros(1_000_000)})
        assert newest(tmp_path) == (100, {"step": 100})
        assert len(list(tmp_path.iterdir())) == 1
        require_writable(tmp_path, 100_000)
        with pytest.raises(OSError, match=r"needs 1600000 bytes for 4 checkpoints of 400000, and \d+ are free"):
            require_writable(tmp_path, 400_000)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_folder_that_cannot_be_written_is_found_before_any_work(tmp_path: Path) -> None:
    taken = tmp_path / "checkpoints"
    taken.write_text("a file where the folder should be")
    for folder in (taken, taken / "deeper", Path("/proc/optimist")):
        with pytest.raises(OSError, match=r"cannot write to .* Choose an output folder"):
            require_writable(folder, 1)
        with pytest.raises(OSError, match=r"was not written"):
            save(folder, 1, SMALL)
    require_writable(tmp_path / "new" / "folder", 1)
    assert not list((tmp_path / "new" / "folder").iterdir())
    with pytest.raises(OSError, match=r"are free. Free some space"):
        require_writable(tmp_path, 10**18)


# One process saves as fast as it can; another kills it at random moments and looks at what is there.
KILLER = """
import os, random, signal, sys, time, warnings
from pathlib import Path
import numpy as np
from optimist.training.runs.checkpoints import newest, save

warnings.simplefilter("error")
folder, pick, cut = Path(sys.argv[1]), random.Random(0), 0
save(folder, 0, {"weights": np.zeros(500_000)})
last = 0
for _ in range(40):
    child = os.fork()
    if child == 0:
        step = last
        while True:
            step += 1
            save(folder, step, {"weights": np.full(500_000, float(step))})
    time.sleep(pick.uniform(0.0, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    cut += len(list(folder.glob("*.partial")))
    step, state = newest(folder)
    assert step >= last, (step, last)
    assert (state["weights"] == step).all()
    last = step
save(folder, last + 1, {})
assert not list(folder.glob("*.partial"))
assert len(list(folder.glob("*.safetensors"))) == 2
print(cut, last)
"""


def test_a_kill_at_any_moment_leaves_a_complete_newest_checkpoint(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLER, str(tmp_path)]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}  # a fork takes no threads along
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cut, saved = map(int, done.stdout.split())
    assert cut > 0  # some kills did come in the middle of a file
    assert saved > 0


def test_reading_warns_of_nothing_when_all_is_well(tmp_path: Path) -> None:
    save(tmp_path, 1, SMALL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        newest(tmp_path)
