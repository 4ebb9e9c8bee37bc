"""How a report looks on a screen, light and dark, and on paper."""

from __future__ import annotations

_LIGHT = """
    --chart-text: #1b1f24; --chart-faint: #59636e; --chart-grid: #e4e7eb; --chart-ground: #ffffff;
    --good: #00664a; --bad: #a63c00;
"""
_DARK = """
    --chart-text: #e8eaed; --chart-faint: #a3adb8; --chart-grid: #31363d; --chart-ground: #14171a;
    --good: #4fc79f; --bad: #ff9a5c;
"""
_GROUND = f"""
.planner-report {{{_LIGHT}
  color: var(--chart-text); background: var(--chart-ground);
  font: 15px/1.45 system-ui, Helvetica, Arial, "DejaVu Sans", sans-serif;
}}
@media (prefers-color-scheme: dark) {{
  .planner-report {{{_DARK}}}
}}
"""
_PARTS = """
.planner-report h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem; }
.planner-report h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.planner-report p { margin: .35rem 0; }
.planner-report :is(h1, h2, p, li) { overflow-wrap: anywhere; }
.planner-report .strong { font-weight: 600; font-size: 1.1rem; }
.planner-report .small, .planner-report footer, .planner-report dt { color: var(--chart-faint); }
.planner-report .small, .planner-report footer { font-size: .85rem; }
.planner-report .good { color: var(--good); }
.planner-report .bad { color: var(--bad); font-weight: 600; }
.planner-report pre {
  margin: .5rem 0; padding: .5rem .75rem; overflow-x: auto; font-size: .85rem;
  border: 1px solid var(--chart-grid);
}
.planner-report dl {
  display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; margin: .5rem 0;
}
.planner-report dd { margin: 0; overflow-wrap: anywhere; }
.planner-report figure { margin: 1.25rem 0; overflow-x: auto; }
.planner-report figure svg {
  display: block; width: 100%; min-width: 36rem; max-width: 52rem; height: auto;
}
.planner-report .scroll { overflow-x: auto; margin: .75rem 0; }
.planner-report table {
  border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums;
}
.planner-report th, .planner-report td {
  padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--chart-grid);
}
.planner-report th { border-bottom-color: var(--chart-faint); font-weight: 600; }
.planner-report .number { text-align: right; white-space: nowrap; }
@media (max-width: 40rem) {
  .planner-report dl { grid-template-columns: 1fr; }
  .planner-report dd { margin-bottom: .4rem; }
}
@media print {
  .planner-report {
    --chart-text: #000000; --chart-faint: #444444; --chart-grid: #dddddd; --chart-ground: #ffffff;
    --good: #00664a; --bad: #a63c00;
    font-size: 10pt;
  }
  .planner-report h2 { break-after: avoid; }
  .planner-report figure, .planner-report tr, .planner-report dl { break-inside: avoid; }
  .planner-report thead { display: table-header-group; }
  .planner-report .scroll, .planner-report figure { overflow: visible; }
  .planner-report figure svg { min-width: 0; max-width: 15.5cm; max-height: 22cm; }
  .planner-report table { font-size: 8pt; }
  .planner-report pre { font-size: 8pt; white-space: pre-wrap; overflow: visible; }
  .planner-report ul { font-size: 8.5pt; line-height: 1.35; }
  .planner-report li, .planner-report p { break-inside: avoid; }
}
"""
STYLE = _GROUND + _PARTS
"""The charts' inks are the report's own: see ``planner.charts.files.inline_svg``."""

PAGE = """
body { margin: 0; }
main, footer { max-width: 60rem; margin: 0 auto; padding: 1rem 1.25rem; }
@page { margin: 14mm; }
@media print { main, footer { max-width: none; padding: 0; } }
"""
_THEMES = f"""
@media screen {{
  [data-jp-theme-light="true"] .planner-report, .vscode-light .planner-report {{{_LIGHT}}}
  [data-jp-theme-light="false"] .planner-report, .vscode-dark .planner-report {{{_DARK}}}
}}
"""
_TABLES = """
.planner-report { padding: .25rem .75rem .75rem; }
.planner-report .scroll table {
  margin: 0; color: inherit; border: 0; font-size: .875rem; table-layout: auto;
}
.planner-report .scroll table tr { background: none; text-align: left; }
.planner-report .scroll table thead, .planner-report .scroll table tr { border: 0; }
.planner-report .scroll table th, .planner-report .scroll table td {
  padding: .25rem .75rem .25rem 0; text-align: left; vertical-align: top; line-height: 1.45;
  max-width: none; border: 0; border-bottom: 1px solid var(--chart-grid);
}
.planner-report .scroll table .number { text-align: right; white-space: nowrap; }
"""
NOTEBOOK = _THEMES + _TABLES
"""What a notebook adds: its own theme counts, not the system's, and its rules for tables do not."""
