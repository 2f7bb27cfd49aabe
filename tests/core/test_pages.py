"""What all pages have in common: text stays text, and nothing is loaded or run."""

from pathlib import Path

from glaim_stream.core.pages import cards, document, shown
from tests.chromium import look


def test_text_of_unknown_origin_is_shown_as_it_is() -> None:
    assert shown("<b>&'\"") == "&lt;b&gt;&amp;&#x27;&quot;"
    assert shown("a\u202eb\u200f\n\x1b") == r"a\u202eb\u200f\n\x1b"


def test_a_script_that_got_into_a_page_does_not_run(tmp_path: Path) -> None:
    # The body is HTML, as if an escape had been forgotten.
    script = "<p id=canary>as it was</p><script>document.getElementById('canary').textContent = 'changed'</script>"
    image = "<img src=x onerror=\"document.getElementById('canary').textContent = 'changed'\">"
    seen = look(document("</title><b>", cards([("1 %", "<i>")]) + script + image), 600, tmp_path)
    assert {"script", "img", "title"} <= seen.tags
    assert "as it was" in seen.text
    assert "changed" not in seen.text
    assert "<i>" in seen.text  # the label of a card
    assert "i" not in seen.tags
