"""An S3 server in memory (moto) for tests: prints its port, and ends when its standard input is closed."""

import sys

import boto3
from moto.server import ThreadedMotoServer


def main() -> None:
    """Serves the buckets named on the command line."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    for bucket in sys.argv[1:]:
        client.create_bucket(Bucket=bucket)
    print(port, flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
