"""`api/values.py`: values of the calls, as notebooks and scripts show them."""

from __future__ import annotations

from phalanx.api.values import Job, Queue, Table, as_html


def test_values_are_tables_in_a_notebook_and_every_text_is_escaped() -> None:
    job = Job(
        namespace="a", name="<b>", kind="Job", queue="q", state="queued", pods=2, placed=0, reason="no <script> here"
    )
    html = Table([job, job])._repr_html_()
    assert html.count("<tr>") == 3
    assert "a/&lt;b&gt;" in html
    assert "<script>" not in html
    assert Table([job, job])[:1]._repr_html_() == job._repr_html_()
    assert "<td></td>" in Queue(name="q", parent="", state="open", running=0, pending=0, share=None)._repr_html_()
    assert as_html([]) == "<p>none</p>"
