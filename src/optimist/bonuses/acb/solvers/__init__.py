"""How the regressors are fitted to noise: exactly, or in a stream."""
