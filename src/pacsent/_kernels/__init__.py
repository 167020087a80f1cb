"""Every numba function, one file per job, and only those; `compiling` has no kernel of its own.

A kernel file imports no other kernel file: numba's cache watches the file a function is written
in, not the files of the functions it calls, so a kernel and all it calls live together.
"""
