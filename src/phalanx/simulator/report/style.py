"""The style sheet of a report: light or dark by the reader's preference, and suitable for printing."""

from __future__ import annotations

# Nine hues that most colour-blind readers can distinguish (Okabe and Ito's palette and two more), for each background.
LIGHT = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00", "#7f7fbf", "#9a9a9a")
DARK = ("#4aa8e0", "#f0b840", "#3cc79e", "#e29ac2", "#8bd0f5", "#f08a4b", "#d8c94a", "#a5a5e0", "#7c7c7c")


def colours(palette: tuple[str, ...]) -> str:
    return "".join(f"--p{at}:{colour};" for at, colour in enumerate(palette))


CLASSES = "".join(
    f".c{at}{{fill:var(--p{at})}}.l{at}{{stroke:var(--p{at})}}.k{at}{{background:var(--p{at})}}"
    for at in range(len(LIGHT))
)

STYLE = f"""
:root{{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--ground:#fff;--panel:#f6f7f9;--rule:#dde2e8;
{colours(LIGHT)}}}
@media (prefers-color-scheme:dark){{:root{{
--ink:#e6e9ee;--soft:#9aa5b4;--ground:#12161c;--panel:#1a2028;--rule:#2c3541;{colours(DARK)}}}}}
*{{box-sizing:border-box}}
body{{margin:0 auto;max-width:1080px;padding:28px 20px 60px;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}}
h1{{font-size:26px;margin:0 0 4px}}h2{{font-size:19px;margin:40px 0 6px}}h3{{font-size:15px;margin:18px 0 2px}}
p{{margin:4px 0 10px;color:var(--soft);max-width:75ch}}
figure{{margin:8px 0 14px;padding:10px 10px 4px;background:var(--panel);border:1px solid var(--rule);border-radius:8px;
overflow-x:auto}}
figcaption{{font-weight:600;padding:0 4px 4px}}
svg{{display:block;width:100%;min-width:640px;height:auto}}
.grid{{stroke:var(--rule);stroke-width:1}}.tick{{fill:var(--soft);font-size:11.5px}}
.level{{stroke:var(--soft);stroke-width:1;stroke-dasharray:5 4}}
polyline{{fill:none;stroke-width:2;stroke-linejoin:round}}
.look rect{{stroke:var(--panel);stroke-width:.4}}
.keys{{display:flex;flex-wrap:wrap;gap:4px 16px;padding:2px 4px 8px;color:var(--soft);font-size:13px}}
.keys i{{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px}}
.scroll{{overflow-x:auto}}
table{{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}}
th{{text-align:right;font-weight:600;color:var(--soft);border-bottom:1px solid var(--rule);padding:5px 8px}}
td{{text-align:right;border-bottom:1px solid var(--rule);padding:5px 8px;vertical-align:top;white-space:nowrap}}
th:first-child,td:first-child,td.text,th.text{{text-align:left}}
td.best{{font-weight:700}}td.text{{min-width:220px;white-space:normal;overflow-wrap:anywhere}}
footer{{margin-top:44px;color:var(--soft);font-size:13px}}
@media print{{figure{{break-inside:avoid}}}}
{CLASSES}
"""
