"""The report: one self-contained HTML page, its pictures drawn as SVG."""
