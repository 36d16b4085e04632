"""Bonuses that train networks of their own: RND, ICM, inverse dynamics."""
