"""Optimist: exploration by optimism, from linear bandits to deep networks.

``optimist.bandits`` needs NumPy and Numba only; the deep-learning half is imported by name, never from here.
"""

from importlib.metadata import version

__version__ = version("optimist")
