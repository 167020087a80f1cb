"""What a careless or hostile user does: every case ends well, or is refused in one line.

`python -m hostile` in `tests` (or `make hostile`) runs all cases and counts how they end: as they
should, refused in one line, with a traceback, with a crash, or silently wrong. The last three must
be 0. `tests/test_hostile.py` runs a part of them.
"""
