"""Figure 6: the states that agents trained on bonuses alone visit, under ACB, RND and ICM."""
