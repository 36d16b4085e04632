"""FrozenLake with as many steps as the shortest path has: how soon it is solved."""
