"""Every numba function, one file per job; `compiling` and `intrinsics` are what they share."""
