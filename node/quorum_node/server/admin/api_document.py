"""The OpenAPI document of the admin API, made when it is first requested, and kept.

It takes more than a second, so it is made on a thread: on the event loop it would hold up commits until another leader is elected.
"""

import asyncio

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse


class DocumentedApp(FastAPI):
    """An application that makes its document on a thread."""

    def setup(self) -> None:
        """Called by the constructor: add the route of the document."""
        made: list[bytes] = []
        one_at_a_time = asyncio.Lock()

        async def document(request: Request) -> Response:
            async with one_at_a_time:
                if not made:
                    made.append(await asyncio.to_thread(self._document))
            return Response(made[0], media_type="application/json")

        assert self.openapi_url is not None
        self.add_route(self.openapi_url, document, include_in_schema=False)

    def _document(self) -> bytes:
        return bytes(JSONResponse(self.openapi()).body)
