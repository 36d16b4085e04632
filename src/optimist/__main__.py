"""``python -m optimist`` is the command ``optimist``."""

from optimist.cli import main

if __name__ == "__main__":  # workers of a study import this module too
    main()
