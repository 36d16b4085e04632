"""Optimist: exploration by optimism, from linear bandits to deep networks.

``optimist.bandits`` needs NumPy and Numba only; the deep-learning half is imported by name, never from here.
"""

__version__: str


def __getattr__(name: str) -> str:
    """The version, read when it is asked for: nothing slow stands between a command and its handling of Ctrl-C."""
    if name == "__version__":
        from importlib.metadata import version

        return version("optimist")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
