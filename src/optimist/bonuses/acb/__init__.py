"""ACB, the paper's bonus: Algorithm 2 in `bonus`, its choices in `config`, what it is made of beside them."""
