"""All sub-commands, on one typer application."""

import typer

from syncline.cli import cluster, configs, consume, demo, groups, produce, topics

app = typer.Typer(
    name="syncline",
    help="A Kafka-compatible replicated log whose replication you can see, prove and tune.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cluster.register(app)
produce.register(app)
consume.register(app)
demo.register(app)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(configs.app, name="configs")
