"""The look of the page: two themes by `prefers-color-scheme`, print, and narrow windows.

Everything that the figures colour is a custom property, so a theme is a list of values.
"""

from train.report.palette import colour_variables

_LIGHT = (
    "--paper: #ffffff; --ink: #1a1f26; --muted: #59636f; --rule: #b9c0c8; --grid: #e6e9ed; "
    "--panel: #f5f6f8; --bar: #8b95a1; --tint-0: #d5ebe5; --tint-1: #f4ead4; "
)
_DARK = (
    "--paper: #14181c; --ink: #e7eaed; --muted: #9ba6b2; --rule: #515b66; --grid: #272e36; "
    "--panel: #1c2127; --bar: #77828f; --tint-0: #1d4038; --tint-1: #453a20; "
)

_RULES = """
* { box-sizing: border-box; }
html { background: var(--paper); color: var(--ink); color-scheme: light dark; }
body { margin: 0 auto; padding: 40px 32px 72px; max-width: 1240px;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 30px; line-height: 1.2; font-weight: 650; margin: 0 0 4px; letter-spacing: -0.01em;
  overflow-wrap: anywhere; }
h2 { font-size: 21px; font-weight: 650; margin: 56px 0 8px; padding-top: 14px;
  border-top: 1px solid var(--rule); }
h3 { font-size: 16px; font-weight: 650; margin: 30px 0 4px; overflow-wrap: anywhere; }
p, ul { max-width: 74ch; margin: 8px 0; overflow-wrap: anywhere; }
ul { padding-left: 20px; }
li { margin: 5px 0; }
a { color: inherit; text-decoration-color: var(--rule); text-underline-offset: 3px; }
.stamp { max-width: none; }
.stamp, .facts, .note, figcaption { color: var(--muted); font-size: 13px; }
.lead { font-size: 17px; max-width: 80ch; }
.seen { display: grid; grid-template-columns: max-content minmax(0, 84ch); gap: 7px 20px;
  margin: 18px 0 24px; }
.seen dt { font-weight: 650; max-width: 16ch; overflow-wrap: anywhere; }
.seen dd { margin: 0; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; margin: 10px 0 0;
  padding: 8px 0; position: sticky; top: 0; z-index: 1; background: var(--paper); }
nav + section h2 { margin-top: 24px; }
section { scroll-margin-top: 40px; }
figure { margin: 20px 0 26px; min-width: 0; }
figcaption { margin: 0 0 6px; max-width: 90ch; overflow-wrap: anywhere; }
.pair { display: grid; grid-template-columns: minmax(0, 1.18fr) minmax(0, 1fr); gap: 4px 40px;
  align-items: start; }
.pair figcaption { grid-column: 1 / -1; }
.drawing { min-width: 0; }
.chart { display: block; width: 100%; height: auto; overflow: visible; }
.chart text { font: 12px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; }
.chart .axis-name, .chart .note { fill: var(--muted); }
.chart .figure-name { fill: var(--ink); font-weight: 650; font-size: 13px; }
.chart .tick { fill: var(--ink); }
.chart .name { font-weight: 600; }
.chart .strong { font-weight: 600; }
.chart .end { text-anchor: end; }
.chart .middle { text-anchor: middle; }
.chart .dagger { font-size: 14px; font-weight: 700; }
.grid { stroke: var(--grid); }
.rule { stroke: var(--rule); }
.guide { stroke: var(--ink); stroke-width: 1; }
.level { stroke: var(--muted); stroke-dasharray: 1 3; stroke-width: 1.5; stroke-linecap: round; }
.leader { stroke: var(--rule); fill: none; }
.series path { stroke-linejoin: round; }
.series:hover path { stroke-width: 3; }
.bar { fill: var(--bar); }
.mean { stroke: var(--ink); stroke-width: 2; }
.missing { fill: var(--panel); stroke: var(--rule); stroke-dasharray: 2 2; }
.table { overflow-x: auto; min-width: 0; }
table { border-collapse: collapse; font-size: 13px; line-height: 1.35;
  font-variant-numeric: tabular-nums; }
th, td { padding: 5px 9px; text-align: right; vertical-align: top; font-weight: 400;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th { color: var(--muted); vertical-align: bottom; }
thead tr:last-child th { border-bottom: 1px solid var(--rule); }
thead [scope="colgroup"] { text-align: right; color: var(--ink); padding-left: 22px; }
thead [scope="colgroup"] span { display: block; border-bottom: 1px solid var(--grid);
  padding-bottom: 3px; }
tbody tr + tr > * { border-top: 1px solid var(--grid); }
.across th { padding-top: 14px; font-weight: 650; }
td b { font-weight: 700; }
td small, tbody th small { display: block; color: var(--muted); font-size: 11.5px; }
.table + .table { margin-top: 26px; }
.side { display: flex; flex-wrap: wrap; gap: 22px 64px; align-items: flex-start; }
.side > .table { margin: 0; max-width: 100%; }
.side + .table { margin-top: 26px; }
.table .note { margin: 8px 0 0; max-width: 68ch; }
.model { display: inline-flex; align-items: baseline; gap: 8px; }
.model { white-space: nowrap; }
.model.long { white-space: normal; min-width: 130px; max-width: 240px; overflow-wrap: anywhere; }
.pair .model.long { max-width: 150px; }
.pair th, .pair td { padding-left: 7px; padding-right: 7px; }
.pair th:first-child, .pair td:first-child { padding-left: 0; }
.swatch { flex: none; align-self: flex-start; margin-top: 3px; }
.words td, .words th { text-align: left; white-space: normal; overflow-wrap: anywhere;
  min-width: 90px; }
.kept { white-space: nowrap; }
.maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(250px, 1fr));
  gap: 8px 28px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr));
  gap: 14px 40px; margin: 16px 0; }
.charts .chart { max-width: 640px; }
.maps figure { margin: 8px 0; max-width: 360px; }
.map-name { color: var(--ink); font-weight: 600; }
.scale-line { display: flex; gap: 10px; align-items: center; }
.scale { display: inline-flex; font-variant-numeric: tabular-nums; }
.scale span { width: 32px; text-align: center; font-size: 11.5px; }
.meter { display: block; width: 100%; min-width: 76px; height: 4px; margin-top: 4px;
  background: var(--grid); }
.meter i { display: block; height: 100%; background: var(--bar); }
.sample { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.75; margin: 0;
  padding: 14px 18px; background: var(--panel); max-width: 108ch;
  font: 13px/1.75 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.segment { padding: 2px 0; }
.even { background: var(--tint-0); }
.odd { background: var(--tint-1); }
.segment sup { color: var(--muted); font-size: 9.5px; line-height: 0; margin: 0 2px;
  user-select: none; }
.segment i { color: var(--muted); font-style: normal; }
details { margin: 8px 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
details pre { background: var(--panel); padding: 12px 16px; font-size: 12px; line-height: 1.5;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: 6px 0; }
@media (max-width: 980px) {
  body { padding: 24px 18px 48px; }
  nav { position: static; }
  section { scroll-margin-top: 0; }
  .pair { grid-template-columns: minmax(0, 1fr); }
  .pair .drawing { max-width: 680px; }
  table { font-size: 12.5px; }
  th, td { padding-left: 4px; padding-right: 4px; }
  thead [scope="colgroup"] { padding-left: 12px; }
}
@media (max-width: 600px) {
  .maps { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 8px 14px; }
}
@page { margin: 14mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 9.5pt; }
  .lead { font-size: 11pt; }
  h2 { margin-top: 28px; }
  table { font-size: 8.5pt; }
  th, td { padding: 3px 5px; }
  .table { overflow: visible; }
  .pair .drawing { max-width: 430px; }
  .maps { grid-template-columns: repeat(3, minmax(0, 1fr)); }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def stylesheet() -> str:
    """All of the page's CSS; it holds no character that HTML would read as markup."""
    light = f":root {{ {_LIGHT}{colour_variables(dark=False)} }}"
    dark = f":root {{ {_DARK}{colour_variables(dark=True)} }}"
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n{_RULES}"
