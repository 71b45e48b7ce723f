"""Which versions of a request a broker serves: the request ApiVersions 0, which every broker serves.

Brokers close the connection on a version that they do not serve, so this is requested only after that has happened.
"""

from typing import Final

from syncline.pipeline.client.messages import Api, decoded

API_VERSIONS: Final = Api(18, 0, is_flexible=False)


def answer(view: memoryview) -> dict[int, int]:
    """Return the newest version by key of the request; raise `RetriableError` if it cannot be read."""
    from kio.schema.api_versions.v0 import response as v0

    return {int(api.api_key): int(api.max_version) for api in decoded(v0.ApiVersionsResponse, view).api_keys}
