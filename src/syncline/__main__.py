"""`python -m syncline` is the `syncline` command."""

from syncline.cli.main import main

main()
