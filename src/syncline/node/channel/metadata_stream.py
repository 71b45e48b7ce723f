"""The cluster's metadata at a broker: polled, applied, polled again.

The broker polls with the version that it has; the controller answers as soon as there is a newer one. The next poll
shows the controller that the broker has applied everything before, so it is sent only when the broker says so.

Invariant: `image` advances by whole versions, and no part uses an image before `on_image` was called with it.
"""

from collections.abc import Callable
from functools import partial

from syncline.model.errors import ErrorCode
from syncline.model.metadata import MetadataImage
from syncline.node.channel.link import ControllerLink
from syncline.node.channel.states import LinkState
from syncline.node.controller.private_messages import News, Poll, apply_news, decode_news, encode_poll
from syncline.wire.api import ApiKey

# Takes the next image, and what to call once it is applied.
OnImage = Callable[[MetadataImage, Callable[[], None]], None]


class MetadataStream:
    """The metadata of one broker."""

    def __init__(self, link: ControllerLink, *, on_image: OnImage, on_applied: Callable[[MetadataImage], None]) -> None:
        self.image = MetadataImage()
        # The version that the whole broker has applied.
        self.applied_version = self.image.version
        self._link = link
        self._on_image = on_image
        # Called with each new image when the whole broker has applied it.
        self._on_applied = on_applied

    def poll(self) -> None:
        """Ask for the changes after the image, once it is applied and this broker is registered."""
        link = self._link
        stream = link.stream
        if stream is None or link.state is not LinkState.REGISTERED or self.applied_version != self.image.version:
            return
        poll = Poll(link.broker_id, link.broker_epoch, self.image.version)

        def on_answer(frame: memoryview | None, position: int) -> None:
            if frame is not None and stream is link.connections[1]:
                self._take(decode_news(frame, position))

        stream.send(ApiKey.METADATA_DELTAS, 0, (encode_poll(poll),), on_answer)

    def _take(self, news: News) -> None:
        old = self.image
        if news.error is not ErrorCode.NONE or news.version < old.version:
            # The other broker is no longer the controller, or does not know yet that it was deposed.
            self._link.close()
            return
        new = apply_news(old, news)
        assert new.version == news.version, f"news of version {news.version} lead to version {new.version}"
        if new.version == old.version:
            self.poll()
            return
        self.image = new
        self._on_image(new, partial(self._applied, new))

    def _applied(self, image: MetadataImage) -> None:
        self.applied_version = image.version
        self._on_applied(image)
        self.poll()
