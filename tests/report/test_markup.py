"""Text in a page is inert."""

import json

import pytest

from headscope.report.markup import bar, data_block, element, head_link, json_text, text

HOSTILE = "</script><script>alert(1)</script>"


def test_text_is_escaped_for_content_and_attributes():
    assert text("<a href='x'>\"&") == "&lt;a href=&#x27;x&#x27;&gt;&quot;&amp;"


@pytest.mark.parametrize("value", [HOSTILE, "<!--", "a&b", "a\u2028b\u2029c", "שלום"])
def test_json_survives_a_script_element(value):
    written = json_text({"word": value})
    assert not any(sign in written for sign in "<>&\u2028\u2029")
    assert json.loads(written) == {"word": value}


def test_json_has_no_nan():
    with pytest.raises(ValueError, match="Out of range float"):
        json_text(float("nan"))


def test_a_data_block_is_never_run():
    block = data_block('a"b', json_text(HOSTILE))
    assert block.startswith('<script type="application/json" id="a&quot;b">')
    assert block.count("</script>") == 1


def test_elements_leave_out_attributes_that_are_none():
    found = element("td", "x", class_="a", data_key=3, title=None, hidden="")
    assert found == '<td class="a" data-key="3" hidden="">x</td>'


def test_heads_are_buttons_only_where_they_can_be_opened():
    assert head_link(3, 10, linked=False) == '<span class="head">3.10</span>'
    button = head_link(3, 10, linked=True, data_relation=HOSTILE)
    assert button.startswith('<button type="button" class="head" data-layer="3" data-head="10"')
    assert "<script>" not in button


def test_a_bar_shows_value_interval_and_baseline():
    drawn = bar(0.5, (0.4, 0.6), baseline=0.3, significant=True)
    assert "--value:0.5000;--low:0.4000;--high:0.6000;--baseline-at:0.3000" in drawn
    assert 'class="bar clear"' in drawn
    assert bar(None) == ""
    assert "spread" not in bar(0.5)
    assert "tick" not in bar(0.5)
