"""Tables and lines of text that have no labelled text."""

import pytest

from pacsent.text.tables import read_labelled_table


def test_lines_that_are_all_blank_are_no_labelled_texts(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("\n\n")

    with pytest.raises(ValueError, match=r"data\.txt must have labelled text\. Got blank lines"):
        read_labelled_table(path, kind="text")


def test_a_table_of_a_header_alone_has_no_labelled_texts(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("text,label\n")

    with pytest.raises(ValueError, match=r"data\.csv must have labelled text\. Got no row"):
        read_labelled_table(path)
