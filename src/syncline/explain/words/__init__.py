"""From findings to sentences: the only place where explanations have words."""
