"""A server that speaks Google Cloud Storage's XML API, for tests: prints its port, and ends when its standard input is closed.

No package offers one. The XML API is S3's but for generations, so moto keeps the objects, and this file adds what
https://cloud.google.com/storage/docs/xml-api/reference-headers says of them: every write gives an object a new generation, answers
carry it in `x-goog-generation`, and a write with `x-goog-if-generation-match` is refused with 412 unless it names the present one, 0
for none.
"""

import json
import os
import sys
import threading
import urllib.parse
import urllib.request

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ANYBODY = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
REFUSAL = b"<Error><Code>PreconditionFailed</Code><Message>the generation is another one</Message></Error>"


class QuietHandler(WSGIRequestHandler):
    """Logs nothing."""

    def log(self, type, message, *args):
        """Drops a line of the log."""


class Generations:
    """Objects of moto, with generations."""

    def __init__(self) -> None:
        self.objects = DomainDispatcherApplication(create_backend_app)
        self.lock = threading.Lock()
        self.generations: dict[str, int] = {}
        self.last = 1_000_000

    def __call__(self, environ, start_response):
        """Answers one request, one at a time: a condition and its write are one step."""
        path = environ["PATH_INFO"]
        if path.startswith("/storage/v1/b/"):
            # The JSON API's resource of a bucket, as far as it says where the bucket is.
            body = json.dumps({"location": os.environ.get("BUCKET_LOCATION", "US-CENTRAL1")}).encode()
            start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
            return [body]
        method = environ["REQUEST_METHOD"]
        query = urllib.parse.parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        environ["HTTP_AUTHORIZATION"] = ANYBODY
        # Else bodies would be read as forms.
        environ["CONTENT_TYPE"] = "application/octet-stream"
        with self.lock:
            expected = environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None)
            if expected is not None and int(expected) != self.generations.get(path, 0):
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                start_response("412 Precondition Failed", [("Content-Length", str(len(REFUSAL)))])
                return [REFUSAL]
            status, headers = "500", []

            def hear(given_status, given_headers, exc_info=None):
                nonlocal status, headers
                status, headers = given_status, list(given_headers)

            body = b"".join(self.objects(environ, hear))
            if status.startswith("2"):
                is_write = (method == "PUT" and "partNumber" not in query) or (method == "POST" and "uploadId" in query)
                if is_write:
                    self.last += 1
                    self.generations[path] = self.last
                elif method == "DELETE" and "uploadId" not in query:
                    self.generations.pop(path, None)
            if path in self.generations:
                headers.append(("x-goog-generation", str(self.generations[path])))
        start_response(status, headers)
        return [body]


def main() -> None:
    """Serves the buckets named on the command line."""
    application = Generations()
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=QuietHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for bucket in sys.argv[1:]:
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/{bucket}", method="PUT")
        urllib.request.urlopen(request).close()
    print(server.port, flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
