"""Where this file stands, pytest puts ``tests/`` on the path: every test may ``import oracles``."""
