"""What importing the light half must not pull in."""

import subprocess
import sys


def test_bandits_do_not_import_torch():
    heavy = "('torch', 'matplotlib', 'tyro')"
    code = f"import sys, optimist, optimist.bandits; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
