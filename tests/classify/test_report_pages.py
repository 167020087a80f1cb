"""Pages about classifiers of many classes, and of predictions."""

import re

from pacsent.classify.diagnostics import report_predictions

N_CLASSES = 25  # too many for a matrix of all pairs
CLASSES = [f"class{number:02}" for number in range(N_CLASSES)]


def cells_of(page, after):
    """The cells of each row of the first table behind this text."""
    _, _, rest = page.partition(after)
    table, _, _ = rest.partition("</table>")
    rows = re.findall("<tr>(.*?)</tr>", table, flags=re.DOTALL)
    return [re.findall("<bdi>(.*?)</bdi>", row) for row in rows]


def test_the_errors_of_many_classes_are_listed_the_most_frequent_first():
    labels = CLASSES * 4
    predictions = list(labels)
    predictions[0] = predictions[25] = predictions[50] = "class07"  # of class00
    predictions[3] = "class04"
    result = report_predictions(labels, predictions)

    rows = cells_of(result.to_html(), after="true class")

    assert rows == [["class00", "class07", "3"], ["class03", "class04", "1"]]


def test_the_errors_of_few_classes_are_a_matrix():
    result = report_predictions(CLASSES[:3] * 4, [*CLASSES[:3] * 3, *["class00"] * 3])

    page = result.to_html()

    assert r"true class \ predicted" in page
    assert "columns are predictions" in page
