"""`python -m syncline` is the `syncline` command."""

# As in `cli.main`, and before the search for it: a Ctrl-C in these first milliseconds would print a traceback.
import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from syncline.cli.main import main

main()
