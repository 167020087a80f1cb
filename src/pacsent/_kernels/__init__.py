"""Every numba function, one file per job, and only those.

A kernel file imports no other file of ours: numba's cache watches the file a function is written
in, not the files of the functions it calls, so a kernel and all it calls live together.
"""
