"""One broker process: the asyncio shell that performs what `core` decides, over the ports it is given."""
