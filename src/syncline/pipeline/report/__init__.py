"""The report: one HTML page that needs nothing but itself, its pictures drawn as SVG."""
