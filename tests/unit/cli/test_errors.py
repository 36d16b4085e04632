"""Whose an error is: a message for a mistake, a traceback named as theirs for the user's code, a bug of ours."""

import importlib
import json
import sys

import pytest

from optimist.cli import errors
from optimist.cli.signals import Stopped
from optimist.files import write_text
from optimist.own import called


def explained(capsys, function, *arguments, words=(), debug=False):
    """The exit code and stderr of a command that ends by what ``function`` raises."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - whatever it is
        function(*arguments)
    code = errors.explain(caught.value.with_traceback(caught.value.__traceback__.tb_next), words, debug=debug)
    return code, capsys.readouterr().err


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """A module of the user's own."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "their_code.py").write_text(
        "def fails(*_):\n    return 1 / 0\n\ndef calls(function):\n    function()\n"
    )
    yield importlib.import_module("their_code")
    del sys.modules["their_code"]


def test_a_mistake_is_told_in_one_line(capsys):
    from optimist.checks import require_seed

    code, told = explained(capsys, require_seed, -1)
    assert code == errors.BAD_USAGE
    assert told == "optimist: seed must be a non-negative integer, got -1: pass e.g. seed=0\n"


def test_with_debug_its_traceback_is_shown_too(capsys):
    from optimist.checks import require_seed

    code, told = explained(capsys, require_seed, -1, debug=True)
    assert code == errors.BAD_USAGE
    assert told.startswith("Traceback")
    assert told.endswith("optimist: seed must be a non-negative integer, got -1: pass e.g. seed=0\n")


@pytest.mark.parametrize("function", [errors.is_theirs, errors.named_modules])
def test_an_error_that_nobody_raised_on_purpose_is_a_bug_of_ours(function, capsys):
    code, told = explained(capsys, function, 3)
    assert code == errors.FAILED
    assert "Traceback" in told
    assert "this is a bug of optimist: please report it" in told


def test_the_users_own_error_is_shown_from_their_first_line_on_and_named(theirs, capsys):
    code, told = explained(capsys, theirs.fails, words=["train", "--env", "their_code:fails"])
    assert code == errors.FAILED
    assert "ZeroDivisionError" in told
    assert told.splitlines()[1].strip().startswith("File ")
    assert "their_code.py" in told.splitlines()[1]
    assert "raised in your their_code:fails, not by optimist" in told


def test_an_error_of_ours_that_their_code_caused_is_theirs(theirs, capsys):
    from optimist.checks import require_seed

    code, told = explained(capsys, theirs.calls, lambda: require_seed(-1))
    assert code == errors.FAILED
    assert "Traceback" in told
    assert "raised in your own code" in told


def test_what_other_rooms_marked_as_theirs_is_theirs(capsys):
    code, told = explained(capsys, lambda: called(int, "x", settings={}, what="the bonus 'x:y'"))
    assert code == errors.FAILED
    assert "not by optimist" in told


def test_a_module_of_theirs_that_does_not_compile_is_theirs(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "their_typo.py").write_text("def f(:\n")
    code, told = explained(capsys, importlib.import_module, "their_typo")
    assert code == errors.FAILED
    assert "their_typo.py" in told
    assert "bug of optimist" not in told


def test_code_of_theirs_is_known_by_the_command_line_by_a_run_and_by_gymnasium(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    write_text(run / "config.json", json.dumps({"env": "my.sea:make", "bonus": "acb * my.own:factory"}))
    assert errors.named_modules(["resume", str(run)]) == ["my.sea:make", "my.own:factory"]
    assert errors.named_modules(["train", "--env=a.b:c", "--out", "x:/y"]) == ["a.b:c"]
    assert errors.named_modules(["train", "--env", "gymnasium:CartPole-v1"]) == []


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (Stopped(2), 130, "interrupted"),
        (Stopped(15), 143, "terminated"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 1, "pip install 'optimist[rl]'"),
        (MemoryError("Unable to allocate 75 GiB"), 1, "not enough memory (Unable to allocate 75 GiB)"),
        (OSError(28, "No space left on device", "/tmp/x"), 1, "/tmp/x: No space left on device"),
    ],
)
def test_what_the_machine_does_is_told_in_one_line(problem, code, words, capsys):
    assert errors.explain(problem, [], debug=False) == code
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


def test_every_module_of_an_extra_is_known():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    modules = {"scikit-learn": "sklearn", "pillow": "PIL", "imageio-ffmpeg": "imageio_ffmpeg"}
    for extra in ("cli", "mnist", "rl", "sb3", "torchrl"):
        for line in extras[extra]:
            package = line.partition(">")[0]
            if not package.startswith("optimist["):
                assert errors.EXTRAS[modules.get(package, package.replace("-", "_"))] == extra
