"""The routes, a file for each thing that clients do. Each is one call deep."""
