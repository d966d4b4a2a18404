"""A bucket that is as fast as this machine: one file under any name, ranges sent by the kernel. Prints its port.

It speaks as much of S3's interface as reading needs (HEAD and GET with ranges, entity tags), and checks no signature.
"""

import os
import socketserver
import sys
from http.server import BaseHTTPRequestHandler


class Bucket(BaseHTTPRequestHandler):
    """Answers for every name with the same bytes."""

    protocol_version = "HTTP/1.1"
    path_of_file = ""

    def log_message(self, *_):
        """Logs nothing."""

    def answer(self, with_body: bool) -> None:
        """Sends a range, or all."""
        with open(self.path_of_file, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            asked = self.headers.get("Range")
            first, last = 0, size - 1
            if asked:
                begin, end = asked.removeprefix("bytes=").split("-")
                first, last = int(begin), min(int(end or size - 1), size - 1)
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("ETag", '"benchmark"')
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.end_headers()
            self.wfile.flush()
            while with_body and first <= last:
                sent = os.sendfile(self.connection.fileno(), file.fileno(), first, last - first + 1)
                if sent == 0:
                    break
                first += sent

    def do_HEAD(self) -> None:
        """Answers HEAD."""
        self.answer(with_body=False)

    def do_GET(self) -> None:
        """Answers GET."""
        self.answer(with_body=True)


class Server(socketserver.ThreadingTCPServer):
    """One thread for each connection."""

    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    """Serves the file named on the command line until standard input ends."""
    Bucket.path_of_file = sys.argv[1]
    with Server(("127.0.0.1", 0), Bucket) as server:
        import threading

        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
