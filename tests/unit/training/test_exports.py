"""The public names of `optimist.training`: all there, documented, and lazy where they need PyTorch."""

import subprocess
import sys

import pytest

from optimist import training


def test_every_public_name_is_there_and_documented():
    assert list(training.__all__) == sorted(training.__all__, key=lambda name: (not name.isupper(), name))
    for name in training.__all__:
        value = getattr(training, name)
        assert name in dir(training)
        assert isinstance(value, training.TrainConfig) or value.__doc__, name
        assert f"`{name}`" in training.__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'optimist\.training' has no attribute 'trian'"):
        _ = training.trian


@pytest.mark.parametrize(
    "code",
    [
        "import optimist",
        "import optimist.bandits",
        "from optimist import training; training.defaults_for('DeepSea-10'), training.TrainConfig(), dir(training)",
        "from optimist.training import Signal, read_metrics, train_command, Interrupted",
    ],
)
def test_what_needs_no_pytorch_does_not_import_it(code):
    told = f"{code}\nimport sys; print([name for name in ('torch', 'gymnasium', 'envpool') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
