"""Looking at a database: how well it answers, labels that look wrong, what it holds, a map of it."""
