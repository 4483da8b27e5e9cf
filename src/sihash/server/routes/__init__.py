"""The routes, one file per kind of task. Each is one call deep."""
