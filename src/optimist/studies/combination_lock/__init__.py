"""The bidirectional combination lock of PC-PG: how often the richer lock is opened."""
