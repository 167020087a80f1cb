"""Compiled loops, one .c and one .py for each subject; `library` loads and calls them."""
