"""Bonuses that count visits, over a lifetime or within an episode."""
