"""Pages with the metrics of other exporters, so that dashboards for them work unchanged."""
