"""Damaged files for every reader: refused in one line, or read; never a crash, never a surprise.

`make fuzz` runs it for FUZZ_SECONDS; `tests/test_fuzz.py` for some seconds in every run. Every case
has a number and is made again from it: `python -m fuzz --target NAME --case NUMBER` in `tests`.
"""
