"""Logs and labeled rows from files: four formats say the same, and what is wrong is named by its line."""

import json
from pathlib import Path

import numpy as np
import pytest

from optimist.bandits import LabeledData, read_data
from optimist.bandits.evaluation import Logs

SAMPLES = Path(__file__).parents[3] / "examples" / "data"
CSV = "age,device,action,reward,probability\n30,phone,a,1,0.5\n40,laptop,b,0,0.25\n50,phone,a,0.5,1\n"


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_logs_of_a_table(tmp_path):
    read = read_data(write(tmp_path, "logs.csv", CSV))
    assert read.actions == ("a", "b")
    logs = read.data
    assert isinstance(logs, Logs)
    assert logs.n_arms == 2
    np.testing.assert_array_equal(logs.actions, [0, 1, 0])
    np.testing.assert_array_equal(logs.rewards, [1, 0, 0.5])
    np.testing.assert_array_equal(logs.probabilities, [0.5, 0.25, 1])
    # The oracle: age, laptop, phone and a constant, each over its root mean square, then rows of mean square norm 1.
    raw = np.array([[30.0, 0, 1, 1], [40, 1, 0, 1], [50, 0, 1, 1]])
    raw /= np.sqrt((raw**2).mean(axis=0))
    raw /= np.sqrt((raw**2).sum(axis=1).mean())
    np.testing.assert_allclose(logs.X[:, 0], raw)


@pytest.mark.parametrize("change", [lambda t: t.replace(",", ";"), lambda t: t.replace(",", "\t"), lambda t: "﻿" + t])
def test_other_delimiters_and_a_byte_order_mark(tmp_path, change):
    plain, other = (read_data(write(tmp_path, f"{i}.csv", text)).data for i, text in enumerate((CSV, change(CSV))))
    np.testing.assert_array_equal(plain.X, other.X)
    np.testing.assert_array_equal(plain.rewards, other.rewards)


def test_a_cost_is_a_negative_reward(tmp_path):
    logs = read_data(write(tmp_path, "logs.csv", CSV.replace("reward", "cost"))).data
    np.testing.assert_array_equal(logs.rewards, [-1, 0, -0.5])


def test_parquet_says_what_csv_says(tmp_path):
    import pyarrow
    import pyarrow.parquet

    columns = {
        "age": [30, 40, 50], "device": ["phone", "laptop", "phone"], "action": ["a", "b", "a"],
        "reward": [1.0, 0.0, 0.5], "probability": [0.5, 0.25, 1.0],
    }  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "logs.parquet")
    ours, other = read_data(tmp_path / "logs.parquet").data, read_data(write(tmp_path, "logs.csv", CSV)).data
    np.testing.assert_array_equal(ours.X, other.X)
    np.testing.assert_array_equal(ours.actions, other.actions)
    columns["age"][1] = None
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "gap.parquet")
    with pytest.raises(ValueError, match=r"gap\.parquet, row 2: age must be a finite number, got 'None'"):
        read_data(tmp_path / "gap.parquet")
    with pytest.raises(ValueError, match="no Parquet file"):
        read_data(write(tmp_path, "text.parquet", CSV))


def test_labeled_rows(tmp_path):
    read = read_data(write(tmp_path, "rows.csv", "x,y,label\n1,2,ten\n3,4,two\n5,6,ten\n"))
    assert isinstance(read.data, LabeledData)
    assert read.actions == ("ten", "two")
    np.testing.assert_array_equal(read.data.labels, [0, 1, 0])
    assert read_data(write(tmp_path, "more.csv", "x,label\n1,10\n1,9\n")).actions == ("9", "10")


def test_vowpal_wabbit_with_arms(tmp_path):
    text = "2:0.5:0.25 | a b:3\n1:-1:0.5 first|n:2 c:0.5 city:paris\n | a\n"
    read = read_data(write(tmp_path, "arms.vw", text))
    assert read.skipped == 1  # no label
    assert read.data.n_arms == 2
    np.testing.assert_array_equal(read.data.actions, [1, 0])
    np.testing.assert_array_equal(read.data.rewards, [-0.5, 1])
    nonzero = read.data.X[:, 0] != 0  # ^a, ^b, n^c, n^city=paris, in this order
    np.testing.assert_array_equal(nonzero, [[True, True, False, False], [False, False, True, True]])


def test_vowpal_wabbit_with_features_of_actions(tmp_path):
    text = "shared |u s:2\n|x a:3\n0:-1:0.5 |x b\n\nshared |u s:1\n0:1:1 |x a\n|x a b\n|x b:0\n"
    logs = read_data(write(tmp_path, "adf.vw", text)).data
    assert logs.n_arms is None
    assert [len(x) for x in logs.X] == [2, 3]
    np.testing.assert_array_equal(logs.actions, [1, 0])
    np.testing.assert_array_equal(logs.rewards, [1, -1])
    # Columns: u^s*x^a, u^s*x^b, x^a, x^b; up to one factor for all.
    first = np.array([[6.0, 0, 3, 0], [0, 2, 0, 1]])
    np.testing.assert_allclose(logs.X[0] / logs.X[0][1, 3], first)


def test_text_and_dsjson_hold_the_same_decisions():
    text, dsjson = (read_data(SAMPLES / name).data for name in ("clicks.vw", "clicks.dsjson"))
    assert len(text) == len(dsjson) == 120
    np.testing.assert_array_equal(text.actions, dsjson.actions)
    np.testing.assert_array_equal(text.rewards, dsjson.rewards)
    np.testing.assert_array_equal(text.probabilities, dsjson.probabilities)
    a, b = (np.sort(np.round(np.abs(logs.X), 9).reshape(len(logs), -1)) for logs in (text, dsjson))
    np.testing.assert_allclose(a, b)


def test_many_names_are_hashed(tmp_path):
    lines = "".join(f"{1 + i % 2}:{i}:0.5 | f{i} g{i}\n" for i in range(40))
    path = write(tmp_path, "many.vw", lines)
    assert read_data(path).data.X.shape == (40, 1, 80)
    assert read_data(path, max_features=16).data.X.shape == (40, 1, 16)


DSJSON = {"_label_cost": -1, "_label_probability": 0.5, "_labelIndex": 0, "c": {"_multi": [{"x": 1}, {"x": 2}]}}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", r"a\.csv is empty"),
        ("a.csv", "x,label\n", "has 0 rows"),
        ("a.csv", CSV + "1,2\n", r"a\.csv, line 5: 2 cells, the header has 5"),
        ("a.csv", CSV.replace("0.25", "0"), r"line 3: probability must be in \(0, 1\], got 0"),
        ("a.csv", CSV.replace("40", "forty"), r"line 3: age must be a finite number, got 'forty'"),
        ("a.csv", CSV.replace("40", "nan"), r"line 3: age must be a finite number, got 'nan'"),
        ("a.csv", CSV.replace("40", ""), r"line 3: age must be a finite number, got ''"),
        ("a.csv", CSV.replace("laptop", ""), "line 3: device is empty"),
        ("a.csv", CSV.replace("probability", "chance"), "no column 'probability'"),
        ("a.csv", CSV.replace("age", "device"), "line 1: the names of columns must be given, and different"),
        ("a.csv", CSV + '"open\n', "line 5"),
        ("a.vw", "1:2:0.5 | a\n1:x:0.5 | a\n", "line 2: a label is action:cost:probability"),
        ("a.vw", "1:2:0.5 | a\n1:1:2 | a\n", "line 2: a label is action:cost:probability"),
        ("a.vw", "1:2 | a\n", "line 1: a label is"),
        ("a.vw", "0:2:0.5 | a\n", "line 1: actions are counted from 1"),
        ("a.vw", "nothing\n", r"line 1: no '\|'"),
        ("a.vw", "1:2:0.5 | a:inf\n", "line 1: a finite number"),
        ("a.vw", "1:2:0.5 | a\n", "holds 1 decisions"),
        ("a.vw", "shared | a\n0:1:1 | a\n0:1:1 | a\n", "line 3: a second action with a cost"),
        ("a.vw", "shared | a\n0:1:1 | a\nshared | b\n", "line 3: the shared line comes first"),
        ("a.dsjson", "{}\n", "line 1: no dsjson decision"),
        ("a.dsjson", json.dumps(DSJSON) + "\n{", "line 2: no dsjson decision"),
        ("a.dsjson", json.dumps(DSJSON | {"_labelIndex": 2}), "line 1: needs a finite _label_cost.*got -1, 0.5 and 2"),
        ("a.dsjson", json.dumps(DSJSON | {"_label_probability": 7}), "line 1: needs"),
        ("a.dsjson", "\n".join([json.dumps(DSJSON | {"c": {"_multi": [{}, {}]}})] * 2), "has no features"),
        ("a.xyz", CSV, "name its format"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(name, text, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_data(write(tmp_path, name, text))


def test_a_format_may_be_named(tmp_path):
    assert len(read_data(write(tmp_path, "a.xyz", CSV), "csv").data) == 3
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_data(tmp_path / "nothing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"a,label\n\xff\xfe,1\n")
    with pytest.raises(ValueError, match="no text in UTF-8"):
        read_data(tmp_path / "bytes.csv")


@pytest.mark.parametrize("name", ["clicks.csv", "clicks.vw", "clicks.dsjson"])
def test_damaged_files_are_refused_with_a_value_error_or_read(name, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / name
    whole = b"".join((SAMPLES / name).read_bytes().splitlines(keepends=True)[:9])
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(rng.integers(1, 5)):
            start = int(rng.integers(len(content)))
            content[start : start + int(rng.integers(0, 9))] = bytes(rng.choice(list(b'\x00,:|"{}[]-1e9 \n\xff'), 3))
        path.write_bytes(content)
        try:
            read_data(path)
        except ValueError as refusal:
            refused += 1
            assert str(path) in str(refusal)  # noqa: PT017
    assert refused > 50
