"""``optimist bandit`` and ``optimist theory`` refuse what makes no sense before they compute or write anything."""

import io

import pytest
from rich.console import Console

from optimist import memory
from optimist.cli import bandit
from optimist.cli.bandit import BanditCommand, run_bandit
from optimist.cli.theory import TheoryCommand, run_theory


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trials": 0}, "trials must be a whole number >= 1, got 0"),
        ({"horizon": 0}, "horizon must be a whole number >= 1, got 0"),
        ({"n_features": 0}, "n_features must be"),
        ({"n_actions": -2}, "n_actions must be"),
        ({"selection_trials": -1}, "selection_trials must be a whole number >= 0"),
        ({"seed": -1}, "seed must be a non-negative integer, got -1"),
        ({"problem_seed": -1}, "problem_seed must be"),
        ({"workers": 0}, "workers must be a whole number >= 1, got 0"),
        ({"noise": -0.1}, "noise must be"),
        ({"noise": float("nan")}, "noise must be"),
        ({"policies": ()}, "at least one policy"),
        ({"policies": ("acb", "acb")}, "none twice"),
        ({"policies": ("acb", "linucd")}, "unknown policies linucd: did you mean 'linucb'"),
        ({"n_features": 100_000}, r"acb: ACB with .* needs 74\.5 GiB.* here: --policies acb-sgd diagonal-linucb"),
        ({"n_features": 100_000, "policies": ("acb-sgd", "lints"), "workers": 1}, "lints: LinTS with n_features"),
        ({"n_features": 3_000, "trials": 1_000, "workers": 1}, "acb with 3,000 features, 1,000 trials .* 67.8 GiB"),
        ({"n_features": 10**9, "n_actions": 10**9}, "the table of actions needs"),
        ({"trials": 10**12, "policies": ("acb-sgd",)}, "are available: give fewer --n-features"),
    ],
)
def test_bad_options_are_refused_before_any_work(change, message, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("work was begun")

    monkeypatch.setattr(bandit, "compare", refuse)
    monkeypatch.setattr(memory, "available_memory", lambda: 8 * 1024**3)
    with pytest.raises(ValueError, match=message):
        run_bandit(BanditCommand(**change, out=tmp_path / "run"), Console(file=io.StringIO()))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 2.0}, r"delta must be in \(0, 1\), got 2.0"),
        ({"delta": float("nan")}, r"delta must be in \(0, 1\)"),
        ({"horizon": 0}, "horizon must be a whole number >= 1, got 0"),
        ({"n_actions": 0}, "n_actions must be"),
        ({"sigma": float("inf")}, "sigma must be > 0 and finite"),
        ({"theta_norm": 1e-300}, "too large or too small"),
    ],
)
def test_theory_refuses_odd_numbers(change, message):
    with pytest.raises(ValueError, match=message):
        run_theory(TheoryCommand(**change), Console(file=io.StringIO()))
