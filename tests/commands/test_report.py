"""`headscope report` as a user calls it."""


def test_writes_one_file_and_says_where(headscope, ewt, tmp_path):
    ran = headscope("report", "demo", ewt, "--limit", 30, "--sentences", 2)
    assert ran.code == 0
    assert f"wrote {tmp_path / 'report.html'}" in ran.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "en_ewt-dev.first100.conllu" in page
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_nothing_to_score_still_gives_a_report(headscope, hostile, tmp_path):
    ran = headscope("report", "demo", hostile / "one-word.conllu", "-o", "r.html")
    assert ran.code == 0
    assert (tmp_path / "r.html").stat().st_size > 1000


def test_a_report_is_html(headscope, tmp_path):
    ran = headscope("report", "demo", "demo", "-o", "r.json")
    assert ran.code == 2
    assert "expected a name ending in .html" in ran.err
    assert list(tmp_path.iterdir()) == []
