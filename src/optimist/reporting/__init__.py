"""What people look at: tables and figures. Knows nothing of how the numbers came about."""
