#!/usr/bin/env python3
"""Writes an image of the `tpu` command as an OCI layout, with Python's standard library alone.

The same inputs give the same bytes. The image has `tpu`, the shared libraries it needs, the machine's certificates, and a user
that is not root; no shell. Beside it is a list of everything in it (SPDX 2.3).

    python3 scripts/oci-image.py --tpu target/dist/tpu --out image --tag 0.1.0 [--libtpu libtpu.so]
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tomllib

USER = 65532
CERTIFICATES = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
ACCOUNTS = f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin\n"
GROUPS = f"root:x:0:\nnonroot:x:{USER}:\n"
NAMES = "passwd: files\ngroup: files\nhosts: files dns\n"


def libraries(program: pathlib.Path) -> dict[str, bytes]:
    """Shared libraries of a program, and the loader, by the paths they are loaded from."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True)
    found = {}
    for line in listed.stdout.splitlines():
        words = [word for word in line.split() if word.startswith("/")]
        if "not found" in line:
            sys.exit(f"error: {program} needs a library that is not here: {line.strip()}")
        if words:
            found[words[0]] = pathlib.Path(words[0]).read_bytes()
    # Names of hosts are looked up by these, which nobody is linked with.
    for path in list(found):
        for name in ["libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"]:
            beside = pathlib.Path(path).parent / name
            if pathlib.Path(path).name.startswith("libc.so") and beside.exists():
                found[str(beside)] = beside.read_bytes()
    return found


def contents(arguments) -> dict[str, tuple[int, bytes]]:
    """Mode and bytes of every file by its path in the image."""
    files = {"usr/local/bin/tpu": (0o755, arguments.tpu.read_bytes())}
    for path, data in libraries(arguments.tpu).items():
        files[path.lstrip("/")] = (0o755, data)
    for path in CERTIFICATES:
        if os.path.exists(path):
            files["etc/ssl/certs/ca-certificates.crt"] = (0o644, pathlib.Path(path).read_bytes())
            break
    else:
        sys.exit("error: this machine has no certificates to put into the image: install ca-certificates")
    for name, text in {"passwd": ACCOUNTS, "group": GROUPS, "nsswitch.conf": NAMES}.items():
        files[f"etc/{name}"] = (0o644, text.encode())
    if arguments.libtpu:
        files["opt/tpubridge/libtpu.so"] = (0o644, arguments.libtpu.read_bytes())
    return files


def layer(files: dict[str, tuple[int, bytes]], time: int) -> bytes:
    """An archive with files and their folders, in order, all of one time and of root."""
    folders = {"home/nonroot": USER, "tmp": 0}
    for path in files:
        for parent in pathlib.PurePosixPath(path).parents:
            folders.setdefault(str(parent), 0)
    folders.setdefault("home", 0)
    folders.pop(".", None)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted([*folders, *files]):
            entry = tarfile.TarInfo(path)
            entry.mtime = time
            if path in files:
                entry.mode, data = files[path]
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
                continue
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
            entry.uid = entry.gid = folders[path]
            archive.addfile(entry)
    return out.getvalue()


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def list_of_parts(arguments, files, time_text: str) -> bytes:
    """What is in the image, as SPDX 2.3 has it: files with their hashes, and the crates of the lock file."""
    lock = tomllib.loads((arguments.source / "Cargo.lock").read_text())
    packages = [
        {
            "SPDXID": f"SPDXRef-crate-{number}",
            "name": package["name"],
            "versionInfo": package["version"],
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "externalRefs": [
                {
                    "referenceCategory": "PACKAGE-MANAGER",
                    "referenceType": "purl",
                    "referenceLocator": f"pkg:cargo/{package['name']}@{package['version']}",
                }
            ],
            **(
                {"checksums": [{"algorithm": "SHA256", "checksumValue": package["checksum"]}]}
                if "checksum" in package
                else {}
            ),
        }
        for number, package in enumerate(lock["package"])
    ]
    found = [
        {
            "SPDXID": f"SPDXRef-file-{number}",
            "fileName": "/" + path,
            "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}],
        }
        for number, (path, (_, data)) in enumerate(sorted(files.items()))
    ]
    name = f"tpubridge-{arguments.tag}"
    related = [
        {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": part["SPDXID"]}
        for part in [*packages, *found]
    ]
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": f"https://tpubridge.github.io/tpubridge/sbom/{name}-{hashlib.sha256(files['usr/local/bin/tpu'][1]).hexdigest()}",
        "creationInfo": {"created": time_text, "creators": ["Tool: oci-image.py"]},
        "packages": packages,
        "files": found,
        "relationships": related,
    }
    return json.dumps(document, indent=1, sort_keys=True).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tpu", type=pathlib.Path, required=True, help="the built command")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the layout, made anew")
    parser.add_argument("--tag", required=True, help="name of the image in the layout")
    parser.add_argument("--libtpu", type=pathlib.Path, help="a libtpu.so to put in")
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent, help="the source tree")
    arguments = parser.parse_args()
    time = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    time_text = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    files = contents(arguments)
    plain = layer(files, time)
    packed = gzip.compress(plain, 9, mtime=0)
    environment = ["PATH=/usr/local/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", "HOME=/home/nonroot"]
    if arguments.libtpu:
        environment.append("TPU_LIBRARY_PATH=/opt/tpubridge/libtpu.so")
    config = {
        "created": time_text,
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": environment,
            "Entrypoint": ["/usr/local/bin/tpu"],
            "WorkingDir": "/home/nonroot",
            "Labels": {"org.opencontainers.image.version": arguments.tag, "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(plain)]},
        "history": [{"created": time_text, "created_by": "oci-image.py"}],
    }
    config = json.dumps(config, sort_keys=True).encode()
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": {"mediaType": f"{kind}.config.v1+json", "digest": digest(config), "size": len(config)},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar+gzip", "digest": digest(packed), "size": len(packed)}],
    }
    manifest = json.dumps(manifest, sort_keys=True).encode()
    index = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.index.v1+json",
        "manifests": [
            {
                "mediaType": f"{kind}.manifest.v1+json",
                "digest": digest(manifest),
                "size": len(manifest),
                "annotations": {"org.opencontainers.image.ref.name": arguments.tag},
            }
        ],
    }
    if arguments.out.exists():
        if not (arguments.out / "oci-layout").exists():
            sys.exit(f"error: {arguments.out} is there and is no image: name another folder")
        shutil.rmtree(arguments.out)
    blobs = arguments.out / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    for data in [packed, config, manifest]:
        (blobs / digest(data).removeprefix("sha256:")).write_bytes(data)
    (arguments.out / "index.json").write_text(json.dumps(index, sort_keys=True))
    (arguments.out / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (arguments.out / "sbom.spdx.json").write_bytes(list_of_parts(arguments, files, time_text))
    print(f"{digest(manifest)} {len(packed)} bytes")


main()
