"""What importing the light half must not pull in."""

import subprocess
import sys
from importlib import metadata


def test_bandits_do_not_import_torch():
    heavy = "('torch', 'matplotlib', 'tyro')"
    code = f"import sys, optimist, optimist.bandits; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_read_when_it_is_asked_for():
    code = "import sys, optimist; print('importlib.metadata' in sys.modules, optimist.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", metadata.version("optimist")]
