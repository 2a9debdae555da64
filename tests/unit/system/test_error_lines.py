"""Each sentence with which a command fails is on the page that says what to do about it."""

import re

from tests.support.checkout import ROOT
from tests.unit.system.error_lines import ERRORS, LEAST, OTHERS, exceptions, letters, sentences

PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
SECTION = "## Every error line of the commands"


def spans(text: str) -> list[str]:
    """Return the texts in code in the first cells of tables."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [span for row in rows for span in re.findall(r"`([^`]+)`", row)]


def says(span: str, sentence: str) -> bool:
    """Whether a text of the page, in which `...` is what varies, is in the sentence."""
    return re.search(".*".join(re.escape(part.strip()) for part in span.split("...")), sentence) is not None


def test_each_sentence_with_which_a_command_fails_is_on_the_page_that_says_what_to_do() -> None:
    known, texts = [*spans(PAGE)], [*sentences()]
    assert len(texts) > 200
    telling = [span for span in known if letters(span) >= LEAST]
    assert [f"{file}: {text}" for file, text in texts if not any(says(span, text) for span in telling)] == []


def test_the_page_has_no_sentence_that_no_command_says() -> None:
    here, texts = spans(PAGE.partition(SECTION)[2].partition("\n## ")[0]), [text for _, text in sentences()]
    assert len(here) > 100
    assert [span for span in here if not any(says(span, text) for text in texts)] == []
    assert len(here) == len(set(here))


def test_each_exception_that_a_command_may_end_with_has_its_sentences_looked_for() -> None:
    raised = exceptions()
    assert raised - ERRORS.keys() == OTHERS
