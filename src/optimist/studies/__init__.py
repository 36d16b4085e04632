"""Studies: the paper's figures and benchmarks of our own. `study` says what one is, `registry` lists them."""
