"""ACB as it ships against itself with one choice taken back to the paper, on DeepSea without reward."""
