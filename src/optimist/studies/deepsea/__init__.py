"""DeepSea: how many states are visited without reward, and how large a sea is solved with it."""
